// Package pysource finds mistakes in how a job calls the functions of Python modules. It
// reads the modules and runs none of them. It finds modules and functions that do not exist,
// inputs and parameters that a function does not take or misses, and generators where the
// job wants one value.
//
//	graph ──▶ modules of py_modules and working_dir ──▶ scan.py, in a Python of this host ──▶ Mistakes
//	                                                     (their syntax trees, by ast)
//
// It reports only what is certain. Some code may add names or change signatures when a module
// runs: a decorator, `import *`, __getattr__, globals(), an attribute that is written. Such
// code is left to the run. So is a module from a package, an archive or an address, and a
// module that does not parse. One case is not foreseen: a name that one module adds to
// another must stand in both.
package pysource
