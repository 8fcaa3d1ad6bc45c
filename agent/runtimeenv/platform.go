package runtimeenv

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// platformOf returns for which platform a program was built, "" for a script, which
// its interpreter runs anywhere. Only hosts with Linux run executors: what was built for
// another system is refused, as what no kernel would start.
func platformOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 4)
	if _, err := io.ReadFull(f, head); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", fmt.Errorf("read the header of %s: %w", path, err)
	}
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		return "", nil
	case string(head) == elf.ELFMAG:
		return elfPlatform(f, path)
	case bytes.HasPrefix(head, []byte("MZ")):
		return "", fmt.Errorf("%s is a program for Windows; build it with GOOS=linux", path)
	case isMacho(head):
		return "", fmt.Errorf("%s is a program for macOS; build it with GOOS=linux", path)
	}
	return "", fmt.Errorf("%s is neither an ELF program nor a script that begins with #!: no kernel starts it", path)
}

func isMacho(head []byte) bool {
	for _, magic := range []uint32{macho.Magic32, macho.Magic64, macho.MagicFat} {
		if binary.LittleEndian.Uint32(head) == magic || binary.BigEndian.Uint32(head) == magic {
			return true
		}
	}
	return false
}

// machine is what an ELF header says of the machine.
type machine struct {
	elf.Machine
	elf.Class
}

// machines are architectures as ELF headers have them; where both byte orders are in use the
// second name is that of the little-endian one.
var machines = map[machine][2]string{
	{elf.EM_386, elf.ELFCLASS32}: {"386"}, {elf.EM_X86_64, elf.ELFCLASS64}: {"amd64"},
	{elf.EM_ARM, elf.ELFCLASS32}: {"arm"}, {elf.EM_AARCH64, elf.ELFCLASS64}: {"arm64"},
	{elf.EM_MIPS, elf.ELFCLASS32}: {"mips", "mipsle"}, {elf.EM_MIPS, elf.ELFCLASS64}: {"mips64", "mips64le"},
	{elf.EM_PPC64, elf.ELFCLASS64}: {"ppc64", "ppc64le"}, {elf.EM_S390, elf.ELFCLASS64}: {"s390x"},
	{elf.EM_RISCV, elf.ELFCLASS64}: {"riscv64"}, {elf.EM_LOONGARCH, elf.ELFCLASS64}: {"loong64"},
}

func elfPlatform(f io.ReaderAt, path string) (string, error) {
	x, err := elf.NewFile(f)
	if err != nil {
		return "", fmt.Errorf("read the ELF header of %s: %w", path, err)
	}
	switch {
	case x.Type != elf.ET_EXEC && x.Type != elf.ET_DYN:
		return "", fmt.Errorf("%s is no program: its ELF type is %s", path, x.Type)
	case x.OSABI != elf.ELFOSABI_NONE && x.OSABI != elf.ELFOSABI_LINUX:
		return "", fmt.Errorf("%s is a program for %s; build it with GOOS=linux", path, strings.TrimPrefix(x.OSABI.String(), "ELFOSABI_"))
	}
	names, ok := machines[machine{x.Machine, x.Class}]
	if !ok {
		return "", fmt.Errorf("%s is a program for a machine that Cascade does not know: %s, %s", path, x.Machine, x.Class)
	}
	if names[1] != "" && x.ByteOrder == binary.LittleEndian {
		return "linux/" + names[1], nil
	}
	return "linux/" + names[0], nil
}
