package comms

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms/internal/msgpack"
	"github.com/cascade-run/cascade/dag"
)

// AppendParameters writes parameters of a task as the msgpack map of Dispatch.
func AppendParameters(b []byte, fields []dag.Field) []byte {
	b = msgpack.AppendMap(b, len(fields))
	for i := range fields {
		b = appendValue(msgpack.AppendString(b, fields[i].Name), fields[i].Value)
	}
	return b
}

// appendValue writes a value of a job file; maps are sorted by key.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, msgpack.Nil)
	case bool:
		return msgpack.AppendBool(b, v)
	case int:
		return msgpack.AppendInt64(b, int64(v))
	case int64:
		return msgpack.AppendInt64(b, v)
	case float64:
		return msgpack.AppendFloat(b, v)
	case string:
		return msgpack.AppendString(b, v)
	case []any:
		b = msgpack.AppendArray(b, len(v))
		for _, e := range v {
			b = appendValue(b, e)
		}
		return b
	case map[string]any:
		b = msgpack.AppendMap(b, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b = appendValue(msgpack.AppendString(b, k), v[k])
		}
		return b
	}
	return msgpack.AppendString(b, fmt.Sprint(v))
}
