package comms

// Messages about the members of a cluster. A member's certificate says which
// requests it may send; see Permit.

// Invite asks for a token, with which a host or a person joins the cluster.
type Invite struct {
	Req  uint64 // names the request in the answer
	Role string // of the joining member: agent, admin, submit or observe
	Name string // of the joining member; empty: it chooses one
	Uses uint32 // how many may join with it; 0 means one
	Life int64  // nanoseconds until it expires; 0 means the receiver's choice
}

// Invitation answers Invite, once the token is durable.
type Invitation struct {
	Req     uint64 // the request
	Token   string // as its bearer shows it; it is sent once
	Expires int64  // wall-clock nanoseconds
}

// Revoke ends memberships: certificates that match all that is given are refused
// from now on and their links end, and tokens of that role and name are void.
type Revoke struct {
	Req    uint64 // names the request in the Reply
	Role   string // role of the member; empty with Serial
	Name   string // name of the member; empty with Serial
	Serial string // of one certificate, or the identifier of one token, in hexadecimal; empty for all of the member's
}

// Renew asks for a new certificate for the sender, before its present one expires.
type Renew struct {
	Req     uint64 // names the request in the answer
	Request []byte // signing request of a new key, DER
}

// Renewed answers Renew.
type Renewed struct {
	Req         uint64 // the request
	Certificate []byte // DER
}

// Revoked tells an agent which certificates to refuse. It replaces the list before.
type Revoked struct {
	Serials []string // of certificates that have not expired, in hexadecimal
}

// Join asks for membership by a token, on a connection of its own before any link:
// its sender has no certificate yet.
type Join struct {
	TokenID []byte // of the token, 8 bytes
	Secret  []byte // of the token, 16 bytes
	Name    string // of the member to be
	Request []byte // signing request of its key, DER
	Bearer  string // what shows the token: "host" or "person"; empty from builds that do not say it
}

// Joined answers Join, once the member is durable.
type Joined struct {
	Refusal     string // why there is no certificate; empty otherwise
	Certificate []byte // DER
}

// Backup asks the controller to write its store and its authority's key to a file
// of its host. Only the controller's user on that host may ask.
type Backup struct {
	Req  uint64 // names the request in the Reply
	File string // absolute path; an existing file is replaced when the backup is whole
}

// SetProfiles replaces the controller's profiles of the tasks that a profile file
// is about; those of other tasks stay.
type SetProfiles struct {
	Req  uint64 // names the request in the Reply
	File []byte // as package profiles writes it; of a large one a part, with whole entries
}

// Type returns TypeSetProfiles.
func (*SetProfiles) Type() Type { return TypeSetProfiles }

func (m *SetProfiles) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Uint(c, &m.Req)
		c.Bytes(&m.File)
	})
}

// Type returns TypeInvite.
func (*Invite) Type() Type { return TypeInvite }

// Type returns TypeInvitation.
func (*Invitation) Type() Type { return TypeInvitation }

// Type returns TypeRevoke.
func (*Revoke) Type() Type { return TypeRevoke }

// Type returns TypeRenew.
func (*Renew) Type() Type { return TypeRenew }

// Type returns TypeRenewed.
func (*Renewed) Type() Type { return TypeRenewed }

// Type returns TypeRevoked.
func (*Revoked) Type() Type { return TypeRevoked }

// Type returns TypeJoin.
func (*Join) Type() Type { return TypeJoin }

// Type returns TypeJoined.
func (*Joined) Type() Type { return TypeJoined }

func (m *Join) code(c *Coder) {
	c.Struct(5, func(c *Coder) {
		c.Bytes(&m.TokenID)
		c.Bytes(&m.Secret)
		String(c, &m.Name)
		c.Bytes(&m.Request)
		String(c, &m.Bearer)
	})
}

func (m *Joined) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		String(c, &m.Refusal)
		c.Bytes(&m.Certificate)
	})
}

// Type returns TypeBackup.
func (*Backup) Type() Type { return TypeBackup }

func (m *Backup) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Uint(c, &m.Req)
		String(c, &m.File)
	})
}

func (m *Invite) code(c *Coder) {
	c.Struct(5, func(c *Coder) {
		Uint(c, &m.Req)
		String(c, &m.Role)
		String(c, &m.Name)
		Uint(c, &m.Uses)
		Int(c, &m.Life)
	})
}

func (m *Invitation) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Req)
		String(c, &m.Token)
		Int(c, &m.Expires)
	})
}

func (m *Revoke) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.Req)
		String(c, &m.Role)
		String(c, &m.Name)
		String(c, &m.Serial)
	})
}

func (m *Renew) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Uint(c, &m.Req)
		c.Bytes(&m.Request)
	})
}

func (m *Renewed) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Uint(c, &m.Req)
		c.Bytes(&m.Certificate)
	})
}

func (m *Revoked) code(c *Coder) {
	c.Struct(1, func(c *Coder) { Slice(c, &m.Serials, String[string]) })
}
