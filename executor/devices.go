package executor

import (
	"fmt"
	"os"
	"strings"
)

// deviceVariables are those that name the devices which the libraries of NVIDIA and AMD
// may use. The agent sets one of them for a task that needs devices.
var deviceVariables = [...]string{"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}

// devices returns the devices of a run, and the variable of the environment that says so.
func (r *run) devices() (variable string, names []string) {
	for _, kv := range r.Env {
		for _, v := range deviceVariables {
			if list, ok := strings.CutPrefix(kv, v+"="); ok {
				return v, strings.Split(list, ",")
			}
		}
	}
	return "", nil
}

// setDevices tells the libraries of this process which devices the function that is to run
// may open. They look once: the agent gives an executor's functions the same ones ever after.
// What it returns takes the variable back, which commands that run later must not find.
func (r *run) setDevices() (undo func(), err error) {
	variable, names := r.devices()
	if variable == "" {
		return func() {}, nil
	}
	before, set := os.LookupEnv(variable)
	if err := os.Setenv(variable, strings.Join(names, ",")); err != nil {
		return nil, fmt.Errorf("tell libraries of the devices %s: %w", strings.Join(names, ","), err)
	}
	return func() {
		if set {
			os.Setenv(variable, before) // as it was
		} else {
			os.Unsetenv(variable)
		}
	}, nil
}
