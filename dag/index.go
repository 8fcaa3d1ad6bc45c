package dag

type graphIndex struct{}

// NumTasks returns the number of static tasks.
func (g *Graph) NumTasks() int { panic("dag: not built yet") }

// NumSlots returns T, the number of instance slots: the streamed groups' tasks per element.
func (g *Graph) NumSlots() int { panic("dag: not built yet") }

// Instance returns the index of slot's task for an element of its generator:
// NumTasks() + element*NumSlots() + slot. It is the same on every host and in every re-execution.
func (g *Graph) Instance(slot int, element uint64) (TaskIndex, error) { panic("dag: not built yet") }

// Slot is the inverse of Instance; ok is false for a static task.
func (g *Graph) Slot(i TaskIndex) (slot int, element uint64, ok bool) { panic("dag: not built yet") }

// StreamSlots returns the slots whose instances are bound to elements of task's output, in order.
func (g *Graph) StreamSlots(task TaskIndex, output uint32) []int { panic("dag: not built yet") }

// Group returns the group of a task or instance.
func (g *Graph) Group(i TaskIndex) *Group { panic("dag: not built yet") }

// GroupIndex returns the position in Groups of a task's or instance's group.
func (g *Graph) GroupIndex(i TaskIndex) int { panic("dag: not built yet") }

// TaskName returns the unique name of a task or instance, for example "spread[2,500]".
func (g *Graph) TaskName(i TaskIndex) string { panic("dag: not built yet") }

// Lookup finds a static task or an instance by name.
func (g *Graph) Lookup(name string) (TaskIndex, bool) { panic("dag: not built yet") }

// Inputs returns the resolved inputs of a task or instance, in the order of its group's declarations.
func (g *Graph) Inputs(i TaskIndex) ([]Input, error) { panic("dag: not built yet") }

// With returns the parameters of a task or instance, placeholders replaced; nil when there are none.
func (g *Graph) With(i TaskIndex) ([]Field, error) { panic("dag: not built yet") }

// Command returns the command line of a task or instance, ArgExpr parts replaced by text.
func (g *Graph) Command(i TaskIndex) ([]Arg, error) { panic("dag: not built yet") }

// EnvVars returns the environment variables of a task or instance, placeholders replaced.
func (g *Graph) EnvVars(i TaskIndex) ([]Field, error) { panic("dag: not built yet") }

// Consumers returns the edges that leave a static task or instance, for each
// output in order. For instances and generators it includes edges to other
// instances of the same element and to static consumers of the whole stream,
// not the binding of new instances: see StreamSlots.
func (g *Graph) Consumers(i TaskIndex) []Edge { panic("dag: not built yet") }

// Order returns the static tasks in a topological order, ties by index.
func (g *Graph) Order() []TaskIndex { panic("dag: not built yet") }
