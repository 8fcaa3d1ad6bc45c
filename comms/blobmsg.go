package comms

import "encoding/hex"

// FeaturePackages is the feature of a controller that keeps packages, and of an agent that fetches them.
const FeaturePackages = "packages"

// FeatureInputs is the feature of a controller that knows inputs of jobs, and agents that read them.
const FeatureInputs = "inputs"

// FeatureParams is the feature of a controller that knows Submit.Params.
const FeatureParams = "params"

// FeatureResume is the feature of a controller that reads the text of a job for what a later one compares: NamedReq, and Submit.Resume with a text.
const FeatureResume = "resume"

// FeatureSubmits is the feature of a controller that takes jobs from agents: graphs that their tasks run.
const FeatureSubmits = "submits"

// FeatureViews is the feature of an agent that leaves a file to the clients of its host that lock it: see Fetch.Host.
const FeatureViews = "views"

// FeaturePlatforms is the feature of a controller that knows binaries for platforms. Which agents do they say in Register.
const FeaturePlatforms = "platforms"

// BlobReq asks for a piece of a blob. The answer is a Blob of the same Hash and
// Offset, with Max bytes, or as many as there are. A repeated request gets it again.
type BlobReq struct {
	Hash   Hash   // of the blob
	Offset uint64 // of the piece
	Max    uint64 // bytes of it, at most 1 MiB
}

// Type returns TypeBlobReq.
func (*BlobReq) Type() Type { return TypeBlobReq }

func (m *BlobReq) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		c.Hash(&m.Hash)
		Uint(c, &m.Offset)
		Uint(c, &m.Max)
	})
}

// PackageHash is the name on links of a package with this SHA-256 in hexadecimal,
// as dag.Package has it; empty when it is none.
func PackageHash(sha256 string) Hash {
	b, err := hex.DecodeString(sha256)
	if err != nil || len(b) != 32 {
		return ""
	}
	return Hash(append([]byte{HashSHA256}, b...))
}
