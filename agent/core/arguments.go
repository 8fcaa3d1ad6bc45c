package core

import (
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// An argument of a call is a value, an output of another call, or an input of the parent.
// Bytes in shared memory that are another dataset's, too, are lent: each argument has a part
// in one reference to them, which holds whatever becomes of that dataset in its job.

// argument is one dataset that a row reads.
type argument struct {
	port  uint32     // of the function
	there bool       // else it waits for the end of a row
	lost  bool       // its bytes are gone, and are to be looked for
	hole  bool       // they are gone, and the next run of the parent brings them
	form  argForm    // how the call gave it
	desc  comms.Desc // with its bytes, when they are no dataset of the ledger
	data  *dataset   // else, as argRef names it
	from  *source    // where its bytes are from when they are another dataset's
}

// argForm is how a call gave an argument.
type argForm uint8

const (
	argValue argForm = iota // with its bytes
	argPut                  // as a value that its parent had put
	argRead                 // as what another call returned, or an input of its parent
)

// argBase is the first output number that stands for an argument of a row: no function
// has so many outputs.
const argBase = 1 << 16

// argRef names an argument of a row as a dataset of its job.
func argRef(t taskIndex, arg int) comms.DatasetRef {
	return comms.DatasetRef{Task: t, Output: argBase + uint32(arg)}
}

// valueItem takes a value that a run has put, or a reference that it has found in one.
func (c *Core) valueItem(by *caller, r *run, m *comms.CallItem, sum xxh3.Uint128, refs []comms.ItemRefs) error {
	if len(m.Inputs) == 1 && (m.Inputs[0].From == comms.FromCallValue || m.Inputs[0].From == comms.FromInputValue) {
		return c.borrow(by, r, m, sum)
	}
	if err := c.putValue(by, r, m, sum); err != nil || len(refs) == 0 && m.Actor == 0 {
		return err
	}
	at, _ := by.calls.get(m.Ref)
	for i := range refs {
		if err := c.listArgument(by, at, &refs[i]); err != nil {
			return err
		}
	}
	if m.Actor != 0 {
		return c.standIn(at, m.Actor)
	}
	return nil
}

// putValue keeps a value that a run has put.
func (c *Core) putValue(by *caller, r *run, m *comms.CallItem, sum xxh3.Uint128) error {
	if len(m.Inputs) != 1 || m.Inputs[0].From != comms.FromValue {
		return fmt.Errorf("value %v has %d inputs, and is made of one that is its value", m.Ref, len(m.Inputs))
	}
	at := c.addRow(by, callRow{ref: m.Ref, run: r.id, sum: sum, value: true, made: c.now.UnixNano()})
	d := m.Inputs[0].Data
	d.Ref, d.Attempt = comms.DatasetRef{Task: at.task}, 1
	if _, err := c.ownValue(r, at.job, d); err != nil {
		return fmt.Errorf("value %v: %w", m.Ref, err)
	}
	by.calls.set(m.Ref, at)
	return nil
}

// ownValue makes a value that a run sent, or sealed into a lease of its, a dataset of a job.
func (c *Core) ownValue(r *run, j *job, d comms.Desc) (*dataset, error) {
	data := &dataset{desc: d, refs: j.rowRefs(d.Ref)}
	switch d.Place.Kind {
	case comms.PlaceInline:
		data.desc.Place.Bytes = slices.Clone(d.Place.Bytes)
		j.data[d.Ref] = data
	case comms.PlaceSegment:
		data.sealed, j.data[d.Ref] = true, data
		if err := c.seal(r.ex, j.key(data), d); err != nil {
			delete(j.data, d.Ref)
			return nil, err
		}
	default:
		return nil, fmt.Errorf("it lies at a place of kind %d", d.Place.Kind)
	}
	return data, nil
}

// callArgument finds one input of a call.
func (c *Core) callArgument(by *caller, r *run, at rowRef, i int, in *comms.CallInput) error {
	w := at.row()
	a := &w.args[i]
	a.port, a.form = in.Port, argRead
	switch ins := w.shape.group.Inputs; {
	case int(in.Port) >= len(ins):
		return fmt.Errorf("input %d of %d", in.Port, len(ins))
	case !ins[in.Port].List && slices.ContainsFunc(w.args[:i], func(o argument) bool { return o.port == in.Port }):
		return fmt.Errorf("two datasets for input %s, which is no list", ins[in.Port].Name)
	}
	switch in.From {
	case comms.FromCall:
		c.readCall(by, at, i, in)
		return nil
	case comms.FromInput:
		return c.passInput(r, at, i, in)
	case comms.FromValue:
	default:
		return fmt.Errorf("input %s is of source %d, which is none of a call", w.shape.group.Inputs[in.Port].Name, in.From)
	}
	d := in.Data
	d.Ref, d.Attempt, a.form = argRef(at.task, i), 1, argValue
	if d.Place.Kind == comms.PlaceInline {
		d.Place.Bytes = slices.Clone(d.Place.Bytes)
		a.desc, a.there = d, true
		return nil
	}
	data, err := c.ownValue(r, at.job, d)
	if err != nil {
		return fmt.Errorf("the value for input %s: %w", w.shape.group.Inputs[in.Port].Name, err)
	}
	a.data, a.there = data, true
	return nil
}

// readCall makes what another call of the same caller returns an argument.
func (c *Core) readCall(by *caller, at rowRef, i int, in *comms.CallInput) {
	other, _ := by.calls.get(in.Ref)
	to := reader{at, i, in.Output, in.Element}
	if other.row().value {
		at.row().args[i].form = argPut
	}
	at.row().args[i].derive(other, in.Output, in.Element)
	ref := comms.DatasetRef{Task: other.task, Output: in.Output, Element: in.Element}
	w := other.row()
	comesHome := w.out != nil && w.out.end != nil // one of its outputs may be here, and counts when all are
	if other.job.at(other.task).state.over() && !slices.Contains(c.rowsEnded, other) || other.job.data[ref] != nil && !comesHome {
		c.passOn(other, to)
		return
	}
	w.readers = append(w.readers, to)
}

// passInput makes an input of the caller an argument. A reference holds its bytes, whatever
// becomes of the dataset in its job: a new epoch may free it there while the run still reads it.
func (c *Core) passInput(r *run, at rowRef, i int, in *comms.CallInput) error {
	j := r.job
	var ref comms.DatasetRef
	if j.dyn != nil {
		w := j.dyn.rows.at(r.task)
		k := w.argument(in.Input, in.Item)
		if k < 0 {
			return fmt.Errorf("it passes its input %d[%d], which it does not have", in.Input, in.Item)
		}
		c.passRefs(j, argRef(r.task, k), at, i)
		if a := &w.args[k]; a.there && a.data == nil {
			to := &at.row().args[i]
			to.desc, to.there = a.desc, true
			return nil
		}
		ref = argRef(r.task, k)
	} else {
		refs, err := j.inputRefs(r.task, in.Input)
		if err != nil || int(in.Item) >= len(refs) {
			return fmt.Errorf("it passes its input %d[%d], which it does not have", in.Input, in.Item)
		}
		ref = refs[in.Item]
	}
	at.row().args[i].from = &source{}
	if d := j.data[ref]; d != nil {
		c.giveArg(at, i, j, d)
		return nil
	}
	d := in.Data
	d.Ref = ref
	if key := Key(j.id, &d); d.Attempt > 0 && d.Place.Kind != comms.PlaceInline && (c.loans[key] != nil || c.led.Ref(key, 1) == nil) {
		if c.loans[key] == nil {
			c.loans[key] = &loan{key: key, desc: d, job: j.id, life: j.life}
		}
		c.giveLoan(at, i, c.loans[key])
		return nil
	}
	c.lack(at, i, fmt.Sprintf("input %d of its parent is gone", in.Input))
	return nil
}

// inputRefs lists the datasets of one input of a task of a graph.
func (j *job) inputRefs(t taskIndex, input uint32) (refs []comms.DatasetRef, err error) {
	ins, err := j.inputs(t)
	if err != nil || int(input) >= len(ins) {
		return nil, err
	}
	for _, s := range ins[input].Sources {
		if s.Kind == dag.SourceWhole || s.Kind == dag.SourceElement {
			refs = append(refs, comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element})
		} else {
			refs = append(refs, j.expand(s)...)
		}
	}
	return refs, nil
}

// loan is a reference to a dataset in memory that arguments hold, whatever becomes of the
// dataset in the job that it is of.
type loan struct {
	key  ledger.Key
	desc comms.Desc  // as its job names it
	job  comms.JobID // of that
	life uint64
	n    int  // arguments
	lost bool // its bytes are gone
}

// lend makes a dataset of one job, which lies in memory, one of another job, too.
func (c *Core) lend(from *job, d *dataset, to *job, ref comms.DatasetRef) *dataset {
	key := from.key(d)
	l := c.loans[key]
	if l == nil {
		c.must(c.led.Ref(key, 1))
		l = &loan{key: key, desc: d.desc, job: from.id, life: from.life}
		c.loans[key] = l
	}
	l.n++
	lent := &dataset{desc: d.desc, sealed: true, refs: 1, lent: l}
	lent.desc.Ref = ref
	to.data[ref] = lent
	return lent
}

// giveLoan makes a dataset that is in memory for other arguments already one of a row.
func (c *Core) giveLoan(to rowRef, arg int, l *loan) {
	l.n++
	a := &to.row().args[arg]
	a.there = true
	a.data = &dataset{desc: l.desc, sealed: true, refs: 1, lent: l}
	a.data.desc.Ref = argRef(to.task, arg)
	to.job.data[a.data.desc.Ref] = a.data
	if a.from != nil {
		a.from.last = l
	}
}

// passOn gives what a row returned to another that reads it. When it is gone the row runs
// again, and the other waits; when it cannot come that one fails.
func (c *Core) passOn(at rowRef, to reader) {
	if to.job.at(to.task).state.over() || to.arg >= len(to.row().args) {
		return
	}
	w := at.row()
	if d := at.job.data[comms.DatasetRef{Task: at.task, Output: to.output, Element: to.element}]; d != nil { // an element is good although the stream fails
		c.giveArg(to.rowRef, to.arg, at.job, d)
		return
	}
	why := "there is no such dataset"
	switch {
	case w.failed != nil:
		why = w.failed.Text()
		if to.row().shape == borrowed {
			c.failBorrowed(to.rowRef, w.failed)
			return
		}
	case at.job.dyn.by != nil && at.makes(to.output, to.element):
		if why = c.recompute(at); why == "" {
			w.readers = append(w.readers, to)
			return
		}
		if to.row().shape == borrowed {
			break
		}
		c.lack(to.rowRef, to.arg, why)
		return
	}
	if to.row().shape == borrowed {
		c.failBorrowed(to.rowRef, &comms.TaskError{Kind: comms.ErrorStore, Task: at.job.rowName(at.task), Agent: c.cfg.Agent, Message: why})
		return
	}
	if at.job.dyn.host != nil {
		c.sendBack(to.rowRef, fmt.Sprintf("%s: %s", at.job.rowName(at.task), why))
		return
	}
	e := &comms.TaskError{Kind: comms.ErrorInput, Message: fmt.Sprintf("what it reads could not be made: %s: %s", at.title(), why)}
	if w.failed != nil {
		e.Codes = w.failed.AllCodes() // errors.Is finds the cause through every level
	}
	c.fail(to.job, to.task, nil, e, comms.Cause{Kind: comms.CauseTask}, true)
}

// makes tells whether a row that has ended well has made a dataset, which may be gone.
func (r rowRef) makes(output uint32, element uint64) bool {
	w := r.row()
	if w.value {
		return output == 0 && element == 0
	}
	if int(output) >= len(w.shape.group.Outputs) {
		return false
	}
	if w.shape.group.Outputs[output].Generate == dag.GenerateNone {
		return element == 0
	}
	st := r.job.streams[outputKey{r.task, output}]
	return st != nil && element < st.next
}

// giveArg makes a dataset that is here an argument.
func (c *Core) giveArg(to rowRef, arg int, from *job, d *dataset) {
	a := &to.row().args[arg]
	a.there = true
	c.passRefs(from, d.desc.Ref, to, arg)
	if !d.sealed {
		a.desc = d.desc
		c.partFrom(a) // it has the bytes
		return
	}
	a.data = c.lend(from, d, to.job, argRef(to.task, arg))
	if a.from != nil {
		a.from.last = a.data.lent
	}
}

// endLoan ends one argument's part in a loan.
func (c *Core) endLoan(l *loan) {
	if l.n--; l.n > 0 {
		return
	}
	delete(c.loans, l.key)
	if !l.lost {
		c.must(c.led.Unref(l.key, 1))
		c.effects()
	}
	j, d := c.dataset(l.key)
	if d == nil {
		c.endOfferOf(l.job, &l.desc)
	}
	if d != nil && j.hosted() != nil && d.desc.Ref.Output < argBase {
		c.endCopy(rowRef{j, d.desc.Ref.Task})
	}
}
