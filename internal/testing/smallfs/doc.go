// Package smallfs gives tests file systems of their own: small ones that fill up,
// read-only ones, and one whose writes can be cut off as a power loss does.
//
//	func TestX(t *testing.T) {
//		if !smallfs.Enter(t) {       the test process starts itself again in new namespaces,
//			return                   runs this test there, and reports its result
//		}
//		dir := smallfs.Tmpfs(t, t.TempDir(), 32<<20)
//
// Programs makes the files of a small image, for programs that see another root; Podman and
// FakePodman give such an image a name.
//
// Invariants:
//   - A mount exists only in the mount namespace of the process that made it: it ends
//     with that process, also by kill -9, and no other process ever sees it. A loop device
//     is marked to end with its last mount.
//   - Where the kernel does not allow it, the test is skipped with the reason.
package smallfs
