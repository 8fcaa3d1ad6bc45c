// Package pysource finds mistakes in how a job calls the functions of Python modules,
// by reading the modules and running none of them: a module that is not there, a
// function that it does not have, inputs and parameters that the function does not take
// or misses, a generator where the job wants one value.
//
//	graph ──▶ modules of py_modules and working_dir ──▶ scan.py, in a Python of this host ──▶ Mistakes
//	                                                     (their syntax trees, by ast)
//
// It says only what is sure. Whatever may add names or change signatures when a module
// runs (a decorator, `import *`, __getattr__, globals(), an attribute that is written), a
// module from a package, an archive or an address, and a module that does not parse, is
// left to the run. Only what another module changes in one is not foreseen: a name that
// it adds must stand in both.
package pysource
