package spool_test

import (
	"bytes"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// FuzzOpen passes arbitrary bytes to Open as a segment and a checkpoint: it opens, the
// recovered records can be read and acknowledged, and then do not come back.
func FuzzOpen(f *testing.F) {
	fs := vfstest.New()
	s, _, err := spool.Open(quiet(fs))
	if err != nil {
		f.Fatal(err)
	}
	var at []spool.Position
	for seq := range uint64(4) {
		p, err := s.Append(spool.Record{Kind: spool.Data, Epoch: s.Epoch(), Seq: seq, Count: 1, Payload: payload(0, seq, 20)})
		if err != nil {
			f.Fatal(err)
		}
		at = append(at, p)
	}
	s.Ack(at[0])
	s.Ack(at[2])
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	const segment, slot = dir + "/0000000000000001.seg", dir + "/checkpoint.a"
	whole, saved := fs.Content(segment), bytes.TrimRight(fs.Content(slot), "\x00")
	f.Add(whole, saved)
	f.Add(whole, []byte(nil))
	f.Add(whole[:len(whole)-5], saved)
	f.Add(append(bytes.Clone(whole[:40]), whole...), saved)
	f.Add([]byte(nil), saved)
	f.Add(make([]byte, 100), []byte(nil))
	f.Fuzz(func(t *testing.T, content, checkpoint []byte) {
		fs := vfstest.New()
		fs.SetContent(segment, content)
		fs.SetContent(slot, checkpoint)
		s, rep := open(t, quiet(fs))
		n := uint64(0)
		for p, r := range s.Recovered {
			n++
			got, err := s.Read(p, nil)
			if err != nil || !bytes.Equal(got, r.Payload) {
				t.Errorf("got %q %v, want %q", got, err, r.Payload)
			}
			s.Ack(p)
		}
		if n != rep.Records {
			t.Errorf("got %d records, want %d as reported", n, rep.Records)
		}
		shut(t, s)
		s, rep = open(t, quiet(fs))
		if rep.Records != 0 || s.Stats().LiveBytes != 0 {
			t.Errorf("got %+v, want everything acknowledged", rep)
		}
		shut(t, s)
	})
}
