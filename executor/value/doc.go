// Package value turns Go values into the bytes of datasets and back.
//
//	Go value ──Codec.Encode──▶ Flat{codec, dtype, shape, bytes} ──▶ message or shared memory
//	Go value ◀──Codec.Decode── Flat over a read-only view
//
// What is already flat (byte slices, numeric slices, [Array]) is
// never copied here: Encode aliases the value and Decode returns a view. Such a
// view is read-only and valid while its dataset is pinned, that is until the
// task that received it ends. Everything else goes through msgpack or a codec
// that the user registered for its type.
//
// Bytes are little-endian, as are the machines that Cascade runs on.
package value
