package faultproxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// echo starts a server that answers with what it gets, and returns its address.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // ends with the connection
			})
		}
	})
	t.Cleanup(work.Wait)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// client connects to a proxy. A read of it that takes a minute fails.
func client(t *testing.T, p *Proxy) net.Conn {
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ends fails unless a new connection ends before it is read. The reset may come while connecting.
func ends(t *testing.T, p *Proxy) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		return
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection did not end: %v", err)
	}
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("got %q, %v, want %q", got, err, text)
	}
}

func TestDisturb(t *testing.T) {
	p := New(t, echo(t), nil)
	c := client(t, p)
	say(t, c, "before")
	hear(t, c, "before")
	if p.Seen() != 1 || p.Open() != 1 {
		t.Errorf("got %d connections, %d open, want 1 of each", p.Seen(), p.Open())
	}

	p.Disturb(Trouble{Hole: true})
	say(t, c, "held")
	p.Heal()
	hear(t, c, "held")

	p.Disturb(Trouble{Rate: 1000})
	begin := time.Now()
	text := string(make([]byte, 200))
	say(t, c, text)
	hear(t, c, text)
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("200 bytes at 1000 a second took %v", took)
	}

	p.Disturb(Trouble{Rate: 1})
	say(t, c, text)
	p.Heal() // goes on in the middle of a wait
	hear(t, c, text)

	p.Disturb(Trouble{Refuse: true})
	ends(t, p)
	say(t, c, "still there")
	hear(t, c, "still there")

	p.Heal()
	p.Retarget("127.0.0.1:1")
	ends(t, p)
	p.Break()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a broken connection was read")
	}
}

func TestPlan(t *testing.T) {
	p := New(t, echo(t), func(n int) Plan { return Plan{Up: Leg{Do: Sever, After: int64(n)}} })
	for n := 1; n <= 3; n++ {
		c := client(t, p)
		say(t, c, "abc")
		if got, err := io.ReadAll(c); len(got) > n {
			t.Errorf("connection %d: got %q, %v, want at most %d bytes", n, got, err, n)
		}
	}
}
