package runtimeenv

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/fetch"
)

// Packer turns the folders, files and addresses that environments name into packages.
// The zero value is ready; one may serve many environments. Close removes what it has fetched.
type Packer struct {
	// Log gets a line for each fetch that is tried again; nil for no log.
	Log io.Writer

	packs  []*Pack
	client fetch.Client
	dir    string // of what was fetched; "" until something is
}

// Pack is a package that can be sent: an archive of what is shipped of a folder or
// file. Equal content gives equal bytes.
type Pack struct {
	dag.Package

	bytes  int64  // of the archive
	source string // what it was made of; "" until it is fetched
	prefix string // folder in the archive
	rename string // of a single file; "" its own name
	bare   bool   // it is the file itself, no archive of it

	from   dag.Address // that it has, or the zero Address
	packer *Packer
}

// EntryError is what is wrong with an entry of an environment.
type EntryError struct {
	Environment string
	Keys        []string // by which a job file says it, one inside the other; of a list its text
	Err         error
}

// Error names the environment.
func (e *EntryError) Error() string { return fmt.Sprintf("environment %q: %v", e.Environment, e.Err) }

func (e *EntryError) Unwrap() error { return e.Err }

// Packs are the packages that were named so far, each once.
func (p *Packer) Packs() []*Pack { return p.packs }

// Pack returns env with packages in the places of paths and addresses. A path that is not on
// this host stays as it is: hosts that run its tasks may have it. Relative paths refer to
// env.Source, which must be absolute. An address is fetched now, or, when it says its
// hash, by Send: only if the controller lacks it. Its errors are of the type *EntryError, one or
// several that are joined.
func (p *Packer) Pack(ctx context.Context, env dag.Environment) (dag.Environment, error) {
	pack := func(what, text string, shape func(source string) (*Pack, error)) (string, error) {
		if _, ok := dag.ParsePackage(text); ok || text == "" {
			return text, nil
		}
		var made *Pack
		var err error
		if address, ok := dag.ParseAddress(text); ok {
			made, err = p.packAddress(ctx, address)
		} else {
			source := absoluteIn(env.Source, text)
			if _, err := os.Stat(source); errors.Is(err, fs.ErrNotExist) {
				return text, nil
			}
			made, err = shape(source)
		}
		if err != nil {
			key, _, _ := strings.Cut(what, " ")
			return "", &EntryError{env.Name, []string{key, text}, fmt.Errorf("%s: %w", what, err)}
		}
		return p.add(made).String(), nil
	}
	if err := validateFiles(env); err != nil {
		return env, err
	}
	var err, failed error
	env.WorkingDir, err = pack("working_dir", env.WorkingDir, packFolder)
	failed = errors.Join(failed, err)
	failed = errors.Join(failed, nameBinary(&env))
	env.Binary, err = pack("binary", env.Binary, packBinary)
	failed = errors.Join(failed, err)
	env.Binaries = slices.Clone(env.Binaries)
	for i := range env.Binaries {
		b := &env.Binaries[i]
		b.Path, err = pack("binary "+b.Platform, b.Path, packBinary)
		failed = errors.Join(failed, err)
	}
	env.PyModules = slices.Clone(env.PyModules)
	for i, m := range env.PyModules {
		env.PyModules[i], err = pack("py_modules", m, packModule)
		failed = errors.Join(failed, err)
	}
	return env, failed
}

func (p *Packer) add(made *Pack) *Pack {
	for _, old := range p.packs {
		if old.Package == made.Package {
			return old
		}
	}
	p.packs = append(p.packs, made)
	return made
}

// FilePack is the package that is a file itself, and no archive: an input of a job,
// of which hash and size are known.
func FilePack(path, sha256 string, size int64) *Pack {
	return &Pack{Package: dag.Package{Hash: sha256, Name: filepath.Base(path)}, bytes: size, source: path, bare: true}
}

// PackProgram returns the package of a program, by a name for people, and the platform for
// which that was built; "" of a script, which runs on any.
func PackProgram(path, name string) (pack *Pack, platform string, err error) {
	if platform, err = platformOf(path); err != nil {
		return nil, "", err
	}
	if pack, err = packBinary(path); err != nil {
		return nil, "", err
	}
	pack.Name = name
	return pack, platform, nil
}

// validateFiles finds mistakes in what of an environment is here.
func validateFiles(env dag.Environment) (err error) {
	note := func(e error, keys ...string) {
		if e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, &EntryError{env.Name, keys, e})
		}
	}
	if env.WorkingDir != "" {
		note(workingDir{}.Validate(env), "working_dir")
	}
	for _, m := range env.PyModules {
		one := env
		one.PyModules = []string{m}
		note(pyModules{}.Validate(one), "py_modules", m)
	}
	if env.Binary != "" {
		note(checkProgram(env, env.Binary), "binary")
	}
	for _, b := range env.Binaries {
		note(checkProgram(env, b.Path), "binary", b.Platform)
	}
	return err
}

// nameBinary finds out for which platforms the programs of an environment that are here
// were built: a single one becomes the binary of its platform, of others it must be what
// the environment says. Scripts run anywhere.
func nameBinary(env *dag.Environment) error {
	here := func(text string) (string, error) {
		if _, ok := dag.ParsePackage(text); ok || text == "" {
			return "", nil
		}
		platform, err := platformOf(absoluteIn(env.Source, text))
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err == nil && platform != "" {
			err = dag.CheckPlatform(platform)
		}
		return platform, err
	}
	platform, err := here(env.Binary)
	if platform != "" && err == nil {
		env.Binaries, env.Binary = []dag.Binary{{Platform: platform, Path: env.Binary}}, ""
		return nil
	}
	for _, b := range env.Binaries {
		platform, e := here(b.Path)
		if e == nil && platform != "" && platform != b.Platform {
			e = fmt.Errorf("%s was built for %s", absoluteIn(env.Source, b.Path), platform)
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", b.Platform, e))
		}
	}
	if err != nil {
		return &EntryError{env.Name, []string{"binary"}, fmt.Errorf("binary: %w", err)}
	}
	return nil
}

func (p *Packer) packAddress(ctx context.Context, a dag.Address) (*Pack, error) {
	made := &Pack{Package: dag.Package{Hash: a.Hash, Name: a.Name}, from: a, packer: p}
	if a.Hash == "" {
		return made, made.fetch(ctx)
	}
	return made, nil
}

// fetch brings what is at the address to this host.
func (p *Pack) fetch(ctx context.Context) error {
	if p.packer.dir == "" {
		dir, err := os.MkdirTemp("", "cascade-download-")
		if err != nil {
			return fmt.Errorf("make a folder for what is fetched: %w", err)
		}
		p.packer.dir = dir
	}
	client := p.packer.client
	client.Log = p.packer.Log
	source, got, err := download(ctx, client, p.from, p.packer.dir)
	if err != nil {
		return err
	}
	p.source, p.bytes, p.Hash = source, got.Size, got.SHA256
	return nil
}

// Close removes what was fetched: packages of addresses cannot be sent any more.
func (p *Packer) Close() {
	if p.dir != "" {
		_ = os.RemoveAll(p.dir) // what stays is in the host's folder of temporary files
	}
}

func packFolder(source string) (*Pack, error) { return newPack(&Pack{source: source}) }

func packBinary(source string) (*Pack, error) {
	return newPack(&Pack{source: source, rename: binaryName})
}

func packModule(source string) (*Pack, error) {
	p := &Pack{source: source}
	if info, err := os.Stat(source); err == nil && info.IsDir() {
		p.prefix = moduleName(source)
	}
	return newPack(p)
}

func newPack(p *Pack) (*Pack, error) {
	p.Name = filepath.Base(p.source)
	sum := sha256.New()
	n, err := p.write(sum)
	if err != nil {
		return nil, err
	}
	p.bytes, p.Hash = n, hex.EncodeToString(sum.Sum(nil))
	return p, nil
}

// ErrChanged says that files changed between the hashing of a package and its sending.
var ErrChanged = errors.New("its files have changed meanwhile")

// Send writes the archive, of total bytes, in pieces of at most so many, in order. The last is
// written only when all of it is what it was when it got its name; else the error
// matches ErrChanged, and the package is to be made anew.
func (p *Pack) Send(ctx context.Context, most int, piece func(offset, total int64, b []byte) error) error {
	if p.source == "" {
		if err := p.fetch(ctx); err != nil {
			return err
		}
	}
	one := func(offset int64, b []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return piece(offset, p.bytes, b)
	}
	c := &cutter{most: most, piece: one, sum: sha256.New(), room: make([]byte, 0, most)}
	n, err := p.write(c)
	switch {
	case err != nil:
		return fmt.Errorf("send %s: %w", p.source, err)
	case n != p.bytes || hex.EncodeToString(c.sum.Sum(nil)) != p.Hash:
		return fmt.Errorf("send %s: %w", p.source, ErrChanged)
	}
	return one(c.sent, c.room)
}

// cutter cuts what is written into pieces and keeps back the last.
type cutter struct {
	most  int
	piece func(offset int64, b []byte) error
	sum   hash.Hash
	room  []byte
	sent  int64
}

func (c *cutter) Write(b []byte) (int, error) {
	n := len(b)
	_, _ = c.sum.Write(b) // a hash does not fail
	for len(b) > 0 {
		if len(c.room) == c.most {
			if err := c.piece(c.sent, c.room); err != nil {
				return 0, err
			}
			c.sent += int64(c.most)
			c.room = make([]byte, 0, c.most) // the receiver may keep the one before
		}
		part := b[:min(len(b), c.most-len(c.room))]
		c.room, b = append(c.room, part...), b[len(part):]
	}
	return n, nil
}

// write writes the archive: the source itself when it is one, else the files that
// are shipped, in order, with nothing in it but names, contents and whether they are programs.
// They are not compressed: equal content has equal bytes whoever packs it.
func (p *Pack) write(to io.Writer) (int64, error) {
	info, err := os.Stat(p.source)
	if err != nil {
		return 0, err
	}
	counted := &counter{w: to}
	archive := !info.IsDir() && p.rename == "" && isArchive(p.source)
	if archive && !p.bare {
		if err := boundArchive(p.source, info.Size()); err != nil { // before its bytes are sent to hosts that refuse them
			return 0, err
		}
	}
	if p.bare || archive {
		err = copyContent(counted, p.source, info.Size())
		return counted.n, err
	}
	files, err := listTree(p.source)
	if err != nil {
		return 0, err
	}
	zw := zip.NewWriter(counted)
	for _, f := range files {
		source, name := filepath.Join(p.source, filepath.FromSlash(f.name)), path.Join(p.prefix, f.name)
		if f.name == "." {
			source, name = p.source, filepath.Base(p.source)
			if p.rename != "" {
				name = p.rename
			}
		}
		if err := packFile(zw, f, source, name); err != nil {
			return counted.n, err
		}
	}
	err = zw.Close()
	return counted.n, err
}

func packFile(zw *zip.Writer, f treeFile, source, name string) error {
	h := &zip.FileHeader{Name: name, Method: zip.Store}
	h.SetMode(shippedMode(f.mode))
	if f.target != "" {
		h.SetMode(fs.ModeSymlink | 0o777)
	}
	w, err := zw.CreateHeader(h)
	if err != nil {
		return err
	}
	if f.target != "" {
		_, err = io.WriteString(w, filepath.ToSlash(f.target))
		return err
	}
	return copyContent(w, source, f.size)
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// Source brings packages to this host.
type Source interface {
	// Fetch appends to the file the bytes that it lacks of a package: it has the first
	// offset bytes already. The caller checks the hash.
	Fetch(ctx context.Context, p dag.Package, offset int64, to io.Writer) error
}

// On makes the cache choose binaries for a platform, rather than for ThisPlatform: a host
// may run those of another, by emulation. It is called before anything is prepared.
func (c *Cache) On(platform string) { c.platform = platform }

// From makes the cache fetch packages from a source. It is called before anything is prepared.
func (c *Cache) From(s Source) { c.source = s }

// packagesFolder is where packages lie while they are fetched and unpacked.
const packagesFolder = "packages"

// unpackPackage fetches a package and unpacks it into a folder. The bytes of an
// interrupted fetch are used by the next.
func (c *Cache) unpackPackage(ctx context.Context, p dag.Package, to string) error {
	if c == nil || c.source == nil {
		return fmt.Errorf("%s can be fetched by an agent only", p)
	}
	dir := filepath.Join(c.dir, packagesFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make cache folder: %w", err)
	}
	name := filepath.Join(dir, p.Hash)
	unlock, err := lock(ctx, name+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.fetch(ctx, p, name); err != nil {
		return fmt.Errorf("fetch %s (%s): %w", p.Name, p, err)
	}
	err = unpack(name, to)
	return errors.Join(err, os.Remove(name))
}

// fetch brings a package into a file. Bytes of an earlier fetch that turn out to be
// wrong are thrown away, and all of it is fetched once more.
func (c *Cache) fetch(ctx context.Context, p dag.Package, name string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	for again := true; ; again = false {
		sum := sha256.New()
		have, err := io.Copy(sum, file)
		if err == nil {
			err = c.source.Fetch(ctx, p, have, io.MultiWriter(file, sum))
		}
		if err != nil {
			return err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got == p.Hash {
			return nil
		} else if have == 0 || !again {
			return errors.Join(fmt.Errorf("its bytes have the hash %s: they were damaged on the way", got), os.Remove(name))
		}
		if err := file.Truncate(0); err != nil {
			return err
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}
