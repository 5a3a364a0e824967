package spool_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// scan returns the payloads of the records in a folder.
func scan(t *testing.T, fsys vfs.FS, from spool.Cursor) ([]string, spool.Cursor, []spool.Damage) {
	t.Helper()
	var got []string
	next, damages, err := spool.Scan(fsys, "dir", from, func(r spool.Record) error {
		got = append(got, string(r.Payload))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, next, damages
}

func TestScan(t *testing.T) {
	fsys := vfstest.New()
	if got, _, damages := scan(t, fsys, spool.Cursor{}); len(got)+len(damages) > 0 {
		t.Errorf("got %q and %v of no folder, want nothing", got, damages)
	}
	s, _, err := spool.Open(spool.Options{Dir: "dir", FS: fsys, SegmentBytes: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	var cursor spool.Cursor
	for i := range 200 {
		payload := fmt.Sprintf("record %d, with some more bytes to fill files", i)
		if _, err := s.Append(spool.Record{Kind: spool.Data, Count: 1, Seq: uint64(i), Payload: []byte(payload)}); err != nil {
			t.Fatal(err)
		}
		want = append(want, payload)
		if i%37 == 0 { // a scan goes on where the last one ended
			got, next, damages := scan(t, fsys, cursor)
			if !slices.Equal(got, want) || len(damages) > 0 {
				t.Fatalf("got %d records and %v after %d, want %d", len(got), damages, i, len(want))
			}
			cursor, want = next, nil
		}
	}
	all, _, _ := scan(t, fsys, spool.Cursor{})
	if len(all) != 200 {
		t.Errorf("got %d records from the beginning, want 200", len(all))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got, _, damages := scan(t, fsys, cursor)
	if !slices.Equal(got, want) || len(damages) > 0 {
		t.Errorf("got %d records and %v after Close, want %d", len(got), damages, len(want))
	}
	stop := errors.New("stop")
	if _, _, err := spool.Scan(fsys, "dir", spool.Cursor{}, func(spool.Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the error of yield", err)
	}
}

// TestScanNamesDamage flips a bit in each byte of a small log: Scan reports the damage
// and yields the other records.
func TestScanNamesDamage(t *testing.T) {
	fsys := vfstest.New()
	s, _, err := spool.Open(spool.Options{Dir: "dir", FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := s.Append(spool.Record{Kind: spool.Data, Count: 1, Seq: uint64(i), Payload: []byte("payload")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := "dir/0000000000000001.seg"
	sound := fsys.Content(name)
	for i := range sound {
		b := slices.Clone(sound)
		b[i] ^= 0x10
		fsys.SetContent(name, b)
		got, _, damages := scan(t, fsys, spool.Cursor{})
		if len(got) < 2 || len(damages) == 0 || damages[0].Path != name {
			t.Errorf("byte %d: got %d records and %v, want at least 2 and a damage", i, len(got), damages)
		}
	}
}

// TestSegmentNames shows that Open and Scan agree on which files are segments.
func TestSegmentNames(t *testing.T) {
	for name, is := range map[string]bool{
		"00000000000000ab.seg":  true,
		"7fffffffffffffff.seg":  true,
		"00000000000000AB.seg":  false, // upper case
		"0000000000000000.seg":  false, // numbers begin at 1
		"8000000000000000.seg":  false, // above any that a spool uses
		"10000000000000000.seg": false,
		"ab.seg":                false,
		"00000000000000ab.se":   false,
	} {
		fsys := vfstest.New()
		s, _, err := spool.Open(spool.Options{Dir: "dir", FS: fsys})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(spool.Record{Kind: spool.Data, Count: 1, Payload: []byte("payload")}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		other := vfstest.New()
		other.SetContent("dir/"+name, fsys.Content("dir/0000000000000001.seg"))
		got, _, damages := scan(t, other, spool.Cursor{})
		if (len(got) == 1) != is || len(damages) > 0 {
			t.Errorf("%s: Scan gives %q, %v, want a record: %t", name, got, damages, is)
		}
		s, found, err := spool.Open(spool.Options{Dir: "dir", FS: other})
		if err != nil {
			t.Fatal(err)
		}
		if (found.Records == 1) != is || found.Corrupt > 0 {
			t.Errorf("%s: Open finds %+v, want a record: %t", name, found, is)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
