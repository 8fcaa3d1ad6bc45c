package space

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// TestFiles writes spaces to JSON and reads them.
func TestFiles(t *testing.T) {
	e, err := NewExpr("a * 2 + d.n")
	if err != nil {
		t.Fatal(err)
	}
	s := Space{"a": Uniform(0, 1), "b": QLogUniform(1, 8, 1), "c": Choice(int64(1), "x", Space{"y": RandN(0, 2)}), "d": Space{"n": QRandInt(0, 10, 5), "m": LogRandInt(1, 9)},
		"g": GridSearch(true, nil), "e": e, "plain": 3.5, "l": []any{RandInt(0, 2)}}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var got Space
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for point := range s.Points() {
		one, err1 := s.Draw(5, 0, point)
		two, err2 := got.Draw(5, 0, point)
		if err1 != nil || err2 != nil || !reflect.DeepEqual(one, two) {
			t.Errorf("%s draws %v, %v, want %v, %v", b, two, err2, one, err1)
		}
		if d := one["d"].(map[string]any); one["e"] != one["a"].(float64)*2+float64(d["n"].(int64)) {
			t.Errorf("the expression is %v of %v", one["e"], one)
		}
	}
	if _, err := json.Marshal(Space{"x": Space{"f": Computed(func(View) (any, error) { return 1, nil })}}); err == nil || !strings.Contains(err.Error(), "parameter x/f") {
		t.Errorf("a function: %v", err)
	}
	for text, want := range map[string]string{
		`{"x": {"uniform": [1]}}`:          "parameter x: uniform takes 2 numbers",
		`{"x": {"uniform": [1, "a"]}}`:     "parameter x: uniform takes numbers, not a",
		`{"x": {"y": {"uniform": [2,1]}}}`: "parameter x/y: there is no value between 2 and 1",
		`{"x": {"choice": 3}}`:             "parameter x: choice takes a list",
		`{"x": {"expr": "a +"}}`:           `parameter x: the expression "a +"`,
	} {
		if err := json.Unmarshal([]byte(text), &got); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := (Space{"x": Expr{Text: "y + 1"}}).Draw(1, 0, 0); err == nil || !strings.Contains(err.Error(), "y + 1") {
		t.Errorf("an expression of what is not there: %v", err)
	}
}

// A whole float stays a float in each place of a space, and an integer an integer.
func TestWholeFloats(t *testing.T) {
	s := Space{"fixed": 1.0, "count": int64(1), "choice": Choice(2.0), "grid": GridSearch(3.0), "list": []any{4.0, int64(4), Choice(5.0)}, "in": Space{"x": Choice(Space{"y": 6.0})},
		"large": 1e22, "zero": 0.0, "step": QUniform(7, 8, 1), "normal": QRandN(0, 1, 1)}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var read Space
	if err := json.Unmarshal(b, &read); err != nil {
		t.Fatal(err)
	}
	want, err1 := s.Draw(1, 0, 0)
	got, err2 := read.Draw(1, 0, 0)
	if err1 != nil || err2 != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s draws\n%#v, %v, want\n%#v, %v", b, got, err2, want, err1)
	}
}

// TestMisspelt refuses maps that were meant to be domains, and no others.
func TestMisspelt(t *testing.T) {
	for text, want := range map[string]string{
		`{"x": {"unifrom": [0, 1]}}`:                            `parameter x: there is no domain "unifrom": did you mean "uniform"?`,
		`{"m": {"x": {"loguniforms": [0.1, 1]}}}`:               `parameter m/x: there is no domain "loguniforms": did you mean "loguniform"?`,
		`{"x": {"choise": ["a", "b"]}}`:                         `did you mean "choice"? If not, a parameter choise of one value is written {choise: {choice: [VALUE]}}`,
		`{"x": {"grid_serch": [1, 2]}}`:                         `did you mean "grid_search"?`,
		`{"x": {"exrp": "a * 2"}, "a": 1}`:                      `parameter x: there is no domain "exrp": did you mean "expr"?`,
		`{"x": {"choice": [{"y": {"randn": [0, 1], "q": 1}}]}}`: `parameter x/y: "randn" is the name of a domain, which is alone in its map: the map has q, randn`,
		`{"x": {"choice": [{"y": {"rnadn": [0, 1]}}, 3]}}`:      `parameter x/y: there is no domain "rnadn": did you mean "randn"?`,
		`{"x": [{"randitn": [0, 4]}]}`:                          `parameter x/0: there is no domain "randitn": did you mean "randint"?`,
		`{"uniform": [0, 1]}`:                                   `parameter uniform has the name of a domain, and a list: write the name of a parameter before it, as in {x: {uniform: [...]}}`,

		`{"x": {"layers": [32, 32]}}`:                                 "",
		`{"x": {"choices": {"choice": [[1, 2]]}}}`:                    "",
		`{"x": {"unifrom": 3}}`:                                       "",
		`{"kernel": {"grid": [3, 3], "step": 1}, "grid": [1, 2]}`:     "",
		`{"x": {"expr": "1 + 1"}, "exp": "a + b", "y": {"exp": "b"}}`: "",
		`{"uniform": {"uniform": [0, 1]}}`:                            "",
	} {
		var s Space
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(text, err)
		}
		if err := s.Misspelt(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if err := (Space{"x": map[string]any{"uniform": []any{0, 1}}}).Misspelt(); err == nil { // its file would be a domain
		t.Error("a map with the name of a domain is taken for one in the file of the experiment")
	}
}
