package tune

import "syscall"

// endWithParent has a program end when this process is killed.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
