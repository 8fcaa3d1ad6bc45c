package runtimeenv

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

// header writes the beginning of an ELF file.
func header(machine elf.Machine, class elf.Class, order binary.ByteOrder, kind elf.Type, abi elf.OSABI) string {
	data := elf.ELFDATA2LSB
	if order == binary.BigEndian {
		data = elf.ELFDATA2MSB
	}
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(class), byte(data), byte(elf.EV_CURRENT), byte(abi)}
	var b bytes.Buffer
	var h any = &elf.Header64{Ident: ident, Type: uint16(kind), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64}
	if class == elf.ELFCLASS32 {
		h = &elf.Header32{Ident: ident, Type: uint16(kind), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 52}
	}
	if err := binary.Write(&b, order, h); err != nil {
		panic(err)
	}
	return b.String()
}

func program(machine elf.Machine) string {
	return header(machine, elf.ELFCLASS64, binary.LittleEndian, elf.ET_DYN, elf.ELFOSABI_NONE)
}

// programs writes files that can be executed and returns their folder.
func programs(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := write(t, t.TempDir(), files)
	for name := range files {
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPlatformOf(t *testing.T) {
	const little, big, any64, any32 = true, false, elf.ELFCLASS64, elf.ELFCLASS32
	order := map[bool]binary.ByteOrder{little: binary.LittleEndian, big: binary.BigEndian}
	for _, c := range []struct {
		machine elf.Machine
		class   elf.Class
		order   bool
		want    string
	}{
		{elf.EM_X86_64, any64, little, "linux/amd64"},
		{elf.EM_AARCH64, any64, little, "linux/arm64"},
		{elf.EM_386, any32, little, "linux/386"},
		{elf.EM_ARM, any32, little, "linux/arm"},
		{elf.EM_RISCV, any64, little, "linux/riscv64"},
		{elf.EM_PPC64, any64, big, "linux/ppc64"},
		{elf.EM_PPC64, any64, little, "linux/ppc64le"},
		{elf.EM_S390, any64, big, "linux/s390x"},
		{elf.EM_LOONGARCH, any64, little, "linux/loong64"},
		{elf.EM_MIPS, any32, big, "linux/mips"},
		{elf.EM_MIPS, any32, little, "linux/mipsle"},
		{elf.EM_MIPS, any64, big, "linux/mips64"},
		{elf.EM_MIPS, any64, little, "linux/mips64le"},
	} {
		dir := programs(t, map[string]string{"p": header(c.machine, c.class, order[c.order], elf.ET_EXEC, elf.ELFOSABI_LINUX)})
		if got, err := platformOf(filepath.Join(dir, "p")); got != c.want || err != nil {
			t.Errorf("%s, %s: %q, %v, want %s", c.machine, c.class, got, err, c.want)
		} else if err := dag.CheckPlatform(got); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
	if self, err := os.Executable(); err != nil {
		t.Error(err)
	} else if got, err := platformOf(self); got != ThisPlatform || err != nil {
		t.Errorf("this program: %q, %v", got, err)
	}
}

func TestNoProgram(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"script", "#!/bin/sh\n", ""},
		{"empty", "", "neither an ELF program nor a script that begins with #!"},
		{"text", "echo\n", "neither an ELF program nor a script"},
		{"windows", "MZ\x90\x00", "is a program for Windows; build it with GOOS=linux"},
		{"mac", "\xcf\xfa\xed\xfe\x0c\x00", "is a program for macOS; build it with GOOS=linux"},
		{"cut", program(elf.EM_X86_64)[:20], "read the ELF header of"},
		{"object", header(elf.EM_X86_64, elf.ELFCLASS64, binary.LittleEndian, elf.ET_REL, elf.ELFOSABI_NONE), "is no program: its ELF type is ET_REL"},
		{"bsd", header(elf.EM_X86_64, elf.ELFCLASS64, binary.LittleEndian, elf.ET_EXEC, elf.ELFOSABI_FREEBSD), "is a program for FREEBSD; build it with GOOS=linux"},
		{"odd", program(elf.EM_AVR), "a machine that Cascade does not know: EM_AVR"},
		{"half", header(elf.EM_RISCV, elf.ELFCLASS32, binary.LittleEndian, elf.ET_EXEC, elf.ELFOSABI_NONE), "a machine that Cascade does not know: EM_RISCV"},
	} {
		dir := programs(t, map[string]string{c.name: c.content})
		got, err := platformOf(filepath.Join(dir, c.name))
		if c.want == "" && err == nil && got == "" {
			continue
		}
		if err == nil || c.want == "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func FuzzPlatformOf(f *testing.F) {
	f.Add([]byte(program(elf.EM_AARCH64)))
	f.Add([]byte("#!/bin/sh"))
	f.Add([]byte("\xca\xfe\xba\xbe"))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "p")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := platformOf(path); err == nil && got != "" && dag.CheckPlatform(got) != nil {
			t.Errorf("%q is no platform", got)
		}
	})
}

// What is packed says for which platform it is; what is not here is as it was written.
func TestPackBinaries(t *testing.T) {
	dir := programs(t, map[string]string{"amd": program(elf.EM_X86_64), "arm": program(elf.EM_AARCH64), "script": "#!/bin/sh\n"})
	for _, c := range []struct {
		name string
		env  dag.Environment
		want []string // platform=name of the package, or path, of each binary
		err  string
	}{
		{"an ELF program", dag.Environment{Binary: "arm"}, []string{"linux/arm64=package arm"}, ""},
		{"a script", dag.Environment{Binary: "script"}, []string{"=package script"}, ""},
		{"not here", dag.Environment{Binary: "/far/away"}, []string{"=/far/away"}, ""},
		{"several", dag.Environment{Binaries: []dag.Binary{{Platform: "linux/amd64", Path: "amd"}, {Platform: "linux/arm64", Path: "script"}, {Platform: "linux/s390x", Path: "/far/away"}}},
			[]string{"linux/amd64=package amd", "linux/arm64=package script", "linux/s390x=/far/away"}, ""},
		{"swapped", dag.Environment{Binaries: []dag.Binary{{Platform: "linux/amd64", Path: "arm"}, {Platform: "linux/arm64", Path: "amd"}}},
			nil, "linux/amd64: " + dir + "/arm was built for linux/arm64\nlinux/arm64: " + dir + "/amd was built for linux/amd64"},
	} {
		var p Packer
		c.env.Name, c.env.Source = "e", dir
		before := append([]dag.Binary(nil), c.env.Binaries...)
		out, err := p.Pack(t.Context(), c.env)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		all := out.Binaries
		if out.Binary != "" {
			all = append(all, dag.Binary{Path: out.Binary})
		}
		var got []string
		for _, b := range all {
			if pkg, ok := dag.ParsePackage(b.Path); ok {
				b.Path = "package " + pkg.Name
			}
			got = append(got, b.Platform+"="+b.Path)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if !reflect.DeepEqual(c.env.Binaries, before) && len(before) > 0 {
			t.Errorf("%s: the environment itself was changed", c.name)
		}
	}
}

// A host prepares the binary of its platform, and no other.
func TestBinaryOfThisHost(t *testing.T) {
	dir := programs(t, map[string]string{"amd": program(elf.EM_X86_64), "arm": program(elf.EM_AARCH64)})
	s := &shelf{}
	env, _ := packed(t, dag.Environment{Name: "e", Source: dir, Binaries: []dag.Binary{{Platform: "linux/amd64", Path: "amd"}, {Platform: "linux/arm64", Path: "arm"}}}, s)
	for platform, want := range map[string]string{"linux/amd64": program(elf.EM_X86_64), "linux/arm64": program(elf.EM_AARCH64)} {
		cache := New(t.TempDir())
		defer cache.Close()
		cache.On(platform)
		cache.From(s)
		act, err := cache.Prepare(t.Context(), env, nil)
		if err != nil {
			t.Fatal(err)
		}
		if read(t, act.Command[0]) != want {
			t.Errorf("%s got another's binary", platform)
		}
	}
	cache := New(t.TempDir())
	defer cache.Close()
	cache.On("linux/riscv64")
	cache.From(s)
	if _, err := cache.Prepare(t.Context(), env, nil); err == nil ||
		!strings.Contains(err.Error(), "binary: there is none for linux/riscv64, the platform of this host, but for linux/amd64, linux/arm64") {
		t.Errorf("on another platform: %v", err)
	}
}
