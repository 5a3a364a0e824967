package doctree

import (
	"math/rand/v2"
	"regexp"
	"testing"
)

// TestNumbers compares what plain scalars are with the expressions of the YAML specification,
// section 10.3.2, on random texts of the characters that numbers have.
func TestNumbers(t *testing.T) {
	integer := regexp.MustCompile(`^([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$`)
	float := regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	random := rand.New(rand.NewPCG(1, 2))
	reached := make(map[Kind]int)
	for range 300_000 {
		text := make([]byte, 1+random.IntN(6))
		for i := range text {
			text[i] = "0011223456789+-..eEx_oaAfnI"[random.IntN(27)]
		}
		if text[0] > '9' { // no number, and perhaps a word such as true
			continue
		}
		got := Plain(string(text)).Kind
		reached[got]++
		want := String
		switch {
		case integer.Match(text):
			want = Int
		case float.Match(text):
			want = Float
		}
		if got != want {
			t.Fatalf("%s: got %v, want %v", text, got, want)
		}
	}
	if reached[Int] < 1000 || reached[Float] < 1000 || reached[String] < 1000 {
		t.Errorf("reached %v", reached)
	}
}
