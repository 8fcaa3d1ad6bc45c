package comms

import (
	"fmt"
	"math"

	"github.com/cascade-run/cascade/comms/internal/msgpack"
)

// Protocol is the version of the protocol. Within a version messages and fields are only
// added: peers skip what they do not know.
const Protocol = 1

// Type numbers a message on the wire. Types below Optional must be understood:
// a receiver that does not know one answers by closing the link. Types from
// Optional on may be ignored. Numbers are never used again for something else.
type Type uint8

// Optional is the first message type that a receiver may ignore.
const Optional Type = 128

// Every message. The comment begins with the ways it may take, sender -> receiver;
// a test reads it.
const (
	TypeReply    Type = 1 // controller -> client, controller -> agent, agent -> client, agent -> agent: the end of a request, well or not
	TypeBlob     Type = 2 // client -> controller, controller -> agent, agent -> executor: a piece of a blob named by its content hash
	TypeHaveReq  Type = 3 // client -> controller: asks which blobs the receiver lacks
	TypeHave     Type = 4 // controller -> client: answers HaveReq
	TypeMany     Type = 5 // client -> controller, controller -> client, controller -> agent: messages that differ in little
	TypeBlobReq  Type = 6 // agent -> controller, executor -> agent: asks for a piece of a blob
	TypeNamedReq Type = 7 // client -> controller: asks what the text of a job file names
	TypeNamed    Type = 8 // controller -> client: answers NamedReq

	TypeSubmit   Type = 10 // client -> controller, agent -> controller: makes a job
	TypeAccepted Type = 11 // controller -> client, controller -> agent: the job is durable
	TypeControl  Type = 12 // client -> controller, agent -> controller: cancel, hold, release, rerun, forget
	TypeWatch    Type = 13 // client -> controller: subscribes to a job's progress
	TypeProgress Type = 14 // controller -> client, controller -> agent: how a job stands
	TypeQuery    Type = 15 // client -> controller: asks for rows
	TypePage     Type = 16 // controller -> client: some rows
	TypeLocate   Type = 17 // client -> controller: asks where datasets are
	TypeLocated  Type = 18 // controller -> client: answers Locate

	TypeFetch Type = 20 // client -> agent: asks for bytes of a dataset or log
	TypeChunk Type = 21 // agent -> client: bytes, as the message's body frame

	TypeWant  Type = 22 // agent -> agent: asks to be served a dataset
	TypeServe Type = 23 // agent -> agent: answers Want
	TypePull  Type = 24 // agent -> agent: asks for bytes of a served dataset
	TypePiece Type = 25 // agent -> agent: bytes, as the message's body frame
	TypeLeave Type = 26 // agent -> agent: ends a transfer

	TypeRegister  Type = 30 // agent -> controller: an agent, its host and its resources
	TypeSnapshot  Type = 31 // agent -> controller: live datasets and jobs, to a new incarnation
	TypeEvents    Type = 32 // agent -> controller: a numbered batch of transitions
	TypeAssign    Type = 33 // controller -> agent: an assignment of a job
	TypeSteer     Type = 34 // controller -> agent: cancel, hold, release, forget
	TypeCommitted Type = 35 // controller -> agent: events up to a number are durable
	TypeRetain    Type = 36 // controller -> agent: which datasets of an ended job to keep

	TypeNotice   Type = 40 // agent -> agent: outputs and ends of tasks that the receiver's tasks read
	TypeReleased Type = 41 // agent -> agent: datasets that the sender's tasks need no more
	TypeServing  Type = 42 // agent -> agent: where the sender serves datasets

	TypeGrant       Type = 46 // agent -> agent: dynamic tasks to be run there
	TypeGrantReport Type = 47 // agent -> agent: what became of granted tasks
	TypeGrantEnd    Type = 48 // agent -> agent: ends grants

	TypeHello     Type = 50 // executor -> agent: the executor and its functions
	TypeWelcome   Type = 51 // agent -> executor: answers Hello
	TypeKind      Type = 52 // agent -> executor: the shared part of the runs of one group
	TypeDispatch  Type = 53 // agent -> executor: runs
	TypeReclaim   Type = 54 // agent -> executor: asks for runs that have not started
	TypeReclaimed Type = 55 // executor -> agent: runs that will not be started
	TypeCancel    Type = 56 // agent -> executor: ends a run
	TypeCredit    Type = 57 // agent -> executor: a generator may publish more
	TypeSegment   Type = 58 // agent -> executor: a segment that may be mapped, or must be unmapped
	TypeLeaseReq  Type = 59 // executor -> agent: asks for room for outputs
	TypeLease     Type = 60 // agent -> executor: answers LeaseReq
	TypeReport    Type = 61 // executor -> agent: changes of runs, in order
	TypeStop      Type = 62 // agent -> executor: end when the queue has ended, or at once
	TypeCalls     Type = 90 // executor -> agent: a run makes tasks
	TypeCallEnds  Type = 91 // agent -> executor: what became of a run's calls
	TypeCallRead  Type = 92 // executor -> agent: asks for a result of a call to be in memory
	TypeCallWait  Type = 93 // executor -> agent: a run waits for calls
	TypeCallGo    Type = 94 // agent -> executor: answers CallWait
	TypeCallDrop  Type = 95 // executor -> agent: results that a run needs no more, and calls to be ended
	TypeListed    Type = 96 // executor -> agent: to what a value refers that a run will publish

	TypeActorCalls Type = 97  // executor -> executor: makes actors, and calls methods of them
	TypeActorEnds  Type = 98  // executor -> executor: what became of calls of methods
	TypeActorDrop  Type = 99  // executor -> executor: ends actors, and calls of methods
	TypeActorFreed Type = 114 // agent -> executor: actors to which no value refers any more
	TypeReach      Type = 115 // executor -> agent, agent -> agent: asks for a direct link to a process on another host
	TypeReached    Type = 116 // agent -> executor, agent -> agent: answers Reach
	TypeCarried    Type = 117 // agent -> agent: bytes of a direct link, as the message's body frame

	TypeInvite     Type = 70 // client -> controller: asks for a token
	TypeInvitation Type = 71 // controller -> client: answers Invite
	TypeRevoke     Type = 72 // client -> controller: ends memberships
	TypeRenew      Type = 73 // client -> controller, agent -> controller: asks for a new certificate
	TypeRenewed    Type = 74 // controller -> client, controller -> agent: answers Renew
	TypeRevoked    Type = 75 // controller -> agent: which certificates to refuse
	TypeBackup     Type = 76 // client -> controller: writes a backup of the store
	TypeDrain      Type = 77 // client -> controller: drains an agent
	TypeJoin       Type = 78 // newcomer -> controller: asks for membership, before there is a link
	TypeJoined     Type = 79 // controller -> newcomer: answers Join

	TypeSetProfiles Type = 80 // client -> controller: replaces profiles of tasks

	TypeLog           Type = Optional      // executor -> agent, agent -> executor: text that a task wrote
	TypeDrainStatus   Type = Optional + 1  // agent -> controller: tasks that a draining agent has begun; the rest is for others
	TypeDrainAgent    Type = Optional + 2  // controller -> agent: leave the cluster, or nothing keeps you in it
	TypeLoadSubscribe Type = Optional + 3  // controller -> agent: report the load, from now on
	TypeLoadReport    Type = Optional + 4  // agent -> controller: waiting work, and free cores
	TypeStealRequest  Type = Optional + 5  // controller -> agent: set tasks aside that others could begin sooner
	TypeStealReply    Type = Optional + 6  // agent -> controller: tasks that were set aside
	TypeWhere         Type = Optional + 7  // agent -> controller: asks where calls should run; carries the sender's load
	TypeThere         Type = Optional + 8  // controller -> agent: answers Where
	TypeMeet          Type = Optional + 9  // controller -> agent: another agent will grant calls
	TypeGangStatus    Type = Optional + 10 // agent -> controller: how far its members of a multi-host gang are
	TypeGangCommand   Type = Optional + 11 // controller -> agent: reserve for members of a multi-host gang, start them, or abort
	TypeUse           Type = Optional + 12 // agent -> controller: how much of its host is in use
	TypeGrantRecall   Type = Optional + 13 // agent -> agent: asks for granted tasks back that have not begun
)

// Message is one message body. Its fields are listed once, in code.
type Message interface {
	Type() Type
	code(*Coder)
}

// Append encodes m behind b: an array of the type and the fields.
func Append(b []byte, m Message) []byte {
	c := Coder{buf: append(b, 0x92)}
	c.buf = msgpack.AppendUint(c.buf, uint64(m.Type()))
	m.code(&c)
	return c.buf
}

// Encode encodes m.
func Encode(m Message) []byte {
	size := 256
	if m, ok := m.(interface{ size() int }); ok {
		size = m.size()
	}
	return Append(make([]byte, 0, size), m)
}

// AppendRecord appends a record of the store in the form of messages: record
// lists its fields as one Struct.
func AppendRecord(b []byte, record func(*Coder)) []byte {
	c := Coder{buf: b}
	record(&c)
	return c.buf
}

// DecodeRecord is the inverse of AppendRecord. Byte slices alias b.
func DecodeRecord(b []byte, record func(*Coder)) error {
	c := Coder{in: msgpack.Reader{Buf: b}, read: true, left: 1, memory: memoryAtLeast + memoryPerByte*len(b)}
	record(&c)
	if len(c.in.Buf) > 0 {
		c.in.Fail(ErrMalformed)
	}
	return c.in.Err
}

// Part codes a message's or record's part of a type of this package.
func Part(c *Coder, part interface{ code(*Coder) }) { part.code(c) }

// UnknownTypeError says that a message of an unknown type arrived.
type UnknownTypeError struct{ Type Type }

func (e *UnknownTypeError) Error() string {
	return fmt.Sprintf("unknown message type %d: the peer is of a newer version", e.Type)
}

// MayIgnore tells whether the message may be dropped without harm.
func (e *UnknownTypeError) MayIgnore() bool { return e.Type >= Optional }

// Decode decodes one message, which must fill b. Byte slices in it alias b.
// Errors: ErrTruncated, ErrMalformed, *UnknownTypeError, all wrapped.
func Decode(b []byte) (Message, error) {
	c := Coder{in: msgpack.Reader{Buf: b}, read: true, memory: memoryAtLeast + memoryPerByte*len(b)}
	n := c.in.Array()
	number := c.in.Uint()
	if c.in.Err == nil && (n < 2 || number > math.MaxUint8) {
		c.in.Fail(ErrMalformed)
	}
	if c.in.Err != nil {
		return nil, fmt.Errorf("decode message: %w", c.in.Err)
	}
	m := newMessage(Type(number))
	if m == nil {
		return nil, fmt.Errorf("decode message: %w", &UnknownTypeError{Type(number)})
	}
	c.left = n - 1
	m.code(&c)
	c.skipRest()
	if len(c.in.Buf) > 0 {
		c.in.Fail(ErrMalformed)
	}
	if c.in.Err != nil {
		return nil, fmt.Errorf("decode %T: %w", m, c.in.Err)
	}
	return m, nil
}

func newMessage(t Type) Message {
	switch t {
	case TypeReply:
		return new(Reply)
	case TypeBlob:
		return new(Blob)
	case TypeNamedReq:
		return new(NamedReq)
	case TypeNamed:
		return new(Named)
	case TypeHaveReq:
		return new(HaveReq)
	case TypeHave:
		return new(Have)
	case TypeMany:
		return new(Many)
	case TypeBlobReq:
		return new(BlobReq)
	case TypeSubmit:
		return new(Submit)
	case TypeAccepted:
		return new(Accepted)
	case TypeControl:
		return new(Control)
	case TypeWatch:
		return new(Watch)
	case TypeProgress:
		return new(Progress)
	case TypeQuery:
		return new(Query)
	case TypePage:
		return new(Page)
	case TypeLocate:
		return new(Locate)
	case TypeLocated:
		return new(Located)
	case TypeFetch:
		return new(Fetch)
	case TypeChunk:
		return new(Chunk)
	case TypeWant:
		return new(Want)
	case TypeServe:
		return new(Serve)
	case TypePull:
		return new(Pull)
	case TypePiece:
		return new(Piece)
	case TypeLeave:
		return new(Leave)
	case TypeRegister:
		return new(Register)
	case TypeSnapshot:
		return new(Snapshot)
	case TypeEvents:
		return new(Events)
	case TypeAssign:
		return new(Assign)
	case TypeSteer:
		return new(Steer)
	case TypeCommitted:
		return new(Committed)
	case TypeRetain:
		return new(Retain)
	case TypeNotice:
		return new(Notice)
	case TypeReleased:
		return new(Released)
	case TypeServing:
		return new(Serving)
	case TypeGrant:
		return new(Grant)
	case TypeGrantReport:
		return new(GrantReport)
	case TypeGrantRecall:
		return new(GrantRecall)
	case TypeGrantEnd:
		return new(GrantEnd)
	case TypeHello:
		return new(Hello)
	case TypeWelcome:
		return new(Welcome)
	case TypeKind:
		return new(Kind)
	case TypeDispatch:
		return new(Dispatch)
	case TypeReclaim:
		return new(Reclaim)
	case TypeReclaimed:
		return new(Reclaimed)
	case TypeCancel:
		return new(Cancel)
	case TypeCredit:
		return new(Credit)
	case TypeSegment:
		return new(Segment)
	case TypeLeaseReq:
		return new(LeaseReq)
	case TypeLease:
		return new(Lease)
	case TypeReport:
		return new(Report)
	case TypeInvite:
		return new(Invite)
	case TypeInvitation:
		return new(Invitation)
	case TypeRevoke:
		return new(Revoke)
	case TypeRenew:
		return new(Renew)
	case TypeRenewed:
		return new(Renewed)
	case TypeRevoked:
		return new(Revoked)
	case TypeBackup:
		return new(Backup)
	case TypeDrain:
		return new(Drain)
	case TypeJoin:
		return new(Join)
	case TypeJoined:
		return new(Joined)
	case TypeSetProfiles:
		return new(SetProfiles)
	case TypeLog:
		return new(Log)
	case TypeDrainStatus:
		return new(DrainStatus)
	case TypeDrainAgent:
		return new(DrainAgent)
	case TypeLoadSubscribe:
		return new(LoadSubscribe)
	case TypeLoadReport:
		return new(LoadReport)
	case TypeStealRequest:
		return new(StealRequest)
	case TypeStealReply:
		return new(StealReply)
	case TypeWhere:
		return new(Where)
	case TypeThere:
		return new(There)
	case TypeMeet:
		return new(Meet)
	case TypeGangStatus:
		return new(GangStatus)
	case TypeGangCommand:
		return new(GangCommand)
	case TypeUse:
		return new(Use)
	case TypeStop:
		return new(Stop)
	case TypeCalls:
		return new(Calls)
	case TypeCallEnds:
		return new(CallEnds)
	case TypeCallRead:
		return new(CallRead)
	case TypeCallWait:
		return new(CallWait)
	case TypeCallGo:
		return new(CallGo)
	case TypeCallDrop:
		return new(CallDrop)
	case TypeListed:
		return new(Listed)
	case TypeActorCalls:
		return new(ActorCalls)
	case TypeActorEnds:
		return new(ActorEnds)
	case TypeActorDrop:
		return new(ActorDrop)
	case TypeActorFreed:
		return new(ActorFreed)
	case TypeReach:
		return new(Reach)
	case TypeReached:
		return new(Reached)
	case TypeCarried:
		return new(Carried)
	}
	return nil
}

// RequestOf returns the request of a client that a message answers. It is false
// for messages that answer none.
func RequestOf(m Message) (req uint64, ok bool) {
	switch m := m.(type) {
	case *Reply:
		return m.Req, true
	case *Have:
		return m.Req, true
	case *Accepted:
		return m.Req, true
	case *Progress:
		return m.Req, true
	case *Page:
		return m.Req, true
	case *Located:
		return m.Req, true
	case *Chunk:
		return m.Req, true
	case *Invitation:
		return m.Req, true
	case *Renewed:
		return m.Req, true
	}
	return 0, false
}
