package dag

import (
	"fmt"
	"math"
	"math/big"
	"testing"
)

// Powers of whole numbers are exact, or an error: never another number.
func TestPower(t *testing.T) {
	for _, a := range []int64{math.MinInt64, -4294967296, -46341, -10, -3, -2, -1, 0, 1, 2, 3, 7, 10, 46341, 3037000499, 3037000500, math.MaxInt64} {
		for _, b := range []int64{0, 1, 2, 3, 21, 22, 39, 40, 61, 62, 63, 64, 65, math.MaxInt64 - 1, math.MaxInt64} {
			got, fits := power(a, b)
			var want *big.Int
			switch {
			case a >= -1 && a <= 1: // of which the exponent may be any
				want = big.NewInt([]int64{1 - 2*(b%2), 0, 1}[a+1])
				if b == 0 {
					want.SetInt64(1)
				}
			case b > 65:
				want = new(big.Int).Lsh(big.NewInt(1), 65)
			default:
				want = new(big.Int).Exp(big.NewInt(a), big.NewInt(b), nil)
			}
			if fits != want.IsInt64() || fits && got != want.Int64() {
				t.Errorf("%d ** %d is %d, %t; want %v", a, b, got, fits, want)
			}
		}
	}
	sc := &scope{params: map[string]any{"n": int64(3), "f": 0.5}}
	for src, want := range map[string]string{
		"3 ** 39": "4052555153018976267", "params.n ** 39": "4052555153018976267", "2 ** -1": "0.5", "params.f ** 2": "0.25", "2 ^ 10": "1024",
		"2 ** 63": "${2 ** 63}: 2 ** 63 does not fit into a whole number of 64 bits (use smaller numbers, or float(...) for decimals)", "params.n ** 40": "${params.n ** 40}: 3 ** 40 does not fit into a whole number of 64 bits (use smaller numbers, or float(...) for decimals)",
	} {
		e, err := programs{}.compile(src, sc)
		var got any
		if err == nil {
			got, err = e.eval(sc, noRow{})
		}
		if text := fmt.Sprint(got); err == nil && text != want || err != nil && err.Error() != want {
			t.Errorf("%s is %v, %v; want %s", src, got, err, want)
		}
	}
}
