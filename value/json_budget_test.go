package value

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestReserve parses texts that become much larger values, and compares what was
// reserved with the size of the heap.
func TestReserve(t *testing.T) {
	distinct := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%x":0`, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	for name, text := range map[string]string{
		"zeros":   "[" + strings.Repeat("0,", 300_000) + "0]",
		"maps":    "[" + strings.Repeat("{},", 200_000) + "{}]",
		"lists":   "[" + strings.Repeat("[0],", 200_000) + "1]",
		"nested":  "[1," + "[" + strings.Repeat("0,", 300_000) + "0]]",
		"objects": "[" + strings.Repeat(`{"a":1,"b":[2]},`, 50_000) + "{}]",
		"names":   distinct(100_000),
		"strings": "[" + strings.Repeat(`"abcdefgh",`, 50_000) + `""]`,
		"long":    `["` + strings.Repeat("x", 2<<20) + `"]`,
		"small":   `{"id":"ord-173","note":"leave at the door","item":{"sku":"a-1","count":2}}`,
	} {
		t.Run(name, func(t *testing.T) {
			all, held, peak := 0, 0, 0
			reserve := func(n int) error {
				held += n
				peak = max(peak, held)
				return nil
			}
			data := []byte(text)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			values := make([]Value, 1+(1<<20)/len(text)) // enough that what the runtime itself keeps is small against them
			for i := range values {
				held, peak = 0, 0
				v, err := ParseJSONWith(data, JSONOptions{Reserve: reserve})
				if err != nil {
					t.Fatal(err)
				}
				values[i] = v
				all += held
				if peak > 3*held+256<<10 {
					t.Errorf("peak: got %d reserved, for a value of %d", peak, held)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			kept := int(after.HeapAlloc) - int(before.HeapAlloc)
			if all < kept*9/10-8<<10 || len(text) > 1000 && all > 2*kept+128<<10 {
				t.Errorf("the values keep %d bytes, reserved were %d", kept, all)
			}
			if plain, err := ParseJSON(data); err != nil || !plain.Equal(values[0]) {
				t.Errorf("without Reserve: got another value, %v", err)
			}
			runtime.KeepAlive(values)
		})
	}
}

// TestReserveRefused stops parsing at the first refusal, and returns its error.
func TestReserveRefused(t *testing.T) {
	errFull := errors.New("full")
	left := 1 << 20
	_, err := ParseJSONWith([]byte("["+strings.Repeat("{},", 1<<20)+"{}]"), JSONOptions{Reserve: func(n int) error {
		if left -= n; left < 0 {
			return errFull
		}
		return nil
	}})
	if !errors.Is(err, errFull) {
		t.Errorf("got %v, want what Reserve returned", err)
	}
	if left < -17*(64<<10) {
		t.Errorf("asked for %d bytes more than there are", -left)
	}
	if _, err := ParseJSON([]byte("[1]")); err != nil {
		t.Errorf("the next text: %v", err)
	}
}
