package main

// system is one column: a runner and how it is started.
type system struct {
	name   string
	title  string // for people
	file   string // the runner, in the folder systems; "" is the Go program there
	tuning string // default or lean; what that means is the runner's to say
	pip    []string
	apt    string // what it needs of Debian
	start  []string
	far    []string // how it is started on several hosts, where that differs
	bound  bool     // no rival but a bound: its tasks carry no names, results or recovery
	ours   bool
}

// Packages of kernels are the same for all, so that kernels are too.
const (
	numpy     = "numpy==2.4.6"
	gymnasium = "gymnasium==1.4.0"
)

// systems lists the columns. Versions are pinned: results name what was compared.
func systems() []system {
	ray := []string{"ray==2.60.0", numpy, gymnasium}
	dask := []string{"distributed==2026.8.0", "dask==2026.8.0", "cloudpickle==3.1.2", numpy, gymnasium}
	return []system{
		{name: "cascade-go", title: "Cascade, Go tasks", ours: true},
		{name: "cascade-python", title: "Cascade, Python tasks", ours: true, file: "on_cascade.py",
			pip: []string{"pyzmq==27.3.0", "msgpack==1.2.4", "cloudpickle==3.1.2", numpy, gymnasium}},
		{name: "ray", title: "Ray", file: "on_ray.py", tuning: "default", pip: ray},
		{name: "ray-lean", title: "Ray, lean", file: "on_ray.py", tuning: "lean", pip: ray},
		{name: "dask", title: "Dask", file: "on_dask.py", tuning: "default", pip: dask},
		{name: "dask-lean", title: "Dask, lean", file: "on_dask.py", tuning: "lean", pip: dask},
		{name: "earthkit", title: "earthkit-workflows", file: "on_earthkit.py", pip: []string{"earthkit-workflows==0.19.1", "uv==0.13.9", numpy, gymnasium}},
		{name: "hyperqueue", title: "HyperQueue", file: "on_hyperqueue.py", pip: []string{"hyperqueue==0.27.0", numpy}},
		{name: "mpi", title: "MPI", file: "on_mpi.py", bound: true, pip: []string{"mpi4py==4.1.2", numpy, gymnasium},
			apt: "libopenmpi-dev openmpi-bin", start: []string{"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "{cores}"},
			far: []string{"mpirun", "--allow-run-as-root", "--bind-to", "none", "--host", "{hosts}", "--mca", "plm_rsh_agent", "sh {programs}/systems/rsh.sh",
				"--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"}},
	}
}
