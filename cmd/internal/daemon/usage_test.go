package daemon

import "testing"

func TestFill(t *testing.T) {
	const text = "Show what there is, and wrap it at\nthe terminal.\n\nThe check covers:\n\n- keys and names\n  of parameters\n- files"
	for width, want := range map[int]string{
		80: "Show what there is, and wrap it at the terminal.\n\nThe check covers:\n\n- keys and names of parameters\n- files\n",
		20: "Show what there is,\nand wrap it at the\nterminal.\n\nThe check covers:\n\n- keys and names of\n  parameters\n- files\n",
	} {
		if got := Fill(text, width); got != want {
			t.Errorf("%d wide:\n%s\nwant\n%s", width, got, want)
		}
	}
}
