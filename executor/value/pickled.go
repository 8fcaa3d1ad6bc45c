package value

import "strings"

// Pickled names an object that Python's pickle sent; kind is the dtype of its dataset, as
// its task's executor said it: "array of bool", "" if it said nothing.
func Pickled(kind string) string {
	if kind == "" {
		return "a Python object, pickled"
	}
	return "a Python object, pickled (" + kind + ")"
}

// plainForms says what a Python task returns instead of an object x so that others can read it.
var plainForms = []struct{ kind, form string }{
	{"array of bool", `x.astype("uint8")`},
	{"array of datetime64", `x.astype("int64") or x.astype(str).tolist()`},
	{"array of timedelta64", `x.astype("int64")`},
	{"array of float16", `x.astype("float32")`},
	{"array of float128", `x.astype("float64")`},
	{"array of ", "x.tolist()"},
	{"array.array", "x.tolist()"},
	{"numpy.rec.recarray", "x.tolist()"},
	{"numpy.matrix", "numpy.asarray(x)"},
	{"numpy.longdouble", "float(x)"},
	{"numpy.datetime64", "str(x)"},
	{"numpy.timedelta64", `int(x.astype("int64"))`},
	{"int of more than 64 bits", "str(x)"},
	{"set", "list(x)"},
	{"range", "list(x)"},
	{"frozenset", "list(x)"},
	{"complex", "[x.real, x.imag]"},
	{"datetime.timedelta", "x.total_seconds()"},
	{"datetime.", "x.isoformat()"},
	{"pathlib.", "str(x)"},
	{"decimal.Decimal", "str(x)"},
	{"fractions.Fraction", "str(x)"},
	{"uuid.UUID", "str(x)"},
	{"numpy.ma.core.MaskedConstant", "None"},
	{"numpy.ma.", "x.filled()"},
	{"pandas.", "x.to_csv()"},
}

// PlainForm says what a Python task returns instead of a pickled object, called x, so that commands
// and tasks of Go can read it.
func PlainForm(kind string) string {
	for _, p := range plainForms {
		if strings.HasPrefix(kind, p.kind) {
			return p.form
		}
	}
	return "text, bytes, an array of numbers, or lists and dicts of plain values"
}
