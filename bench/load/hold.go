package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Held are idle keep-alive connections. They must be closed.
type Held struct{ conns []net.Conn }

// Hold opens n connections, 64 at a time, and sends one request on each.
func Hold(ctx context.Context, addr, path string, n int) (*Held, error) {
	h := &Held{conns: make([]net.Conn, n)}
	errs := make([]error, n)
	slots := make(chan struct{}, 64) // the server's accept queue is finite
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			h.conns[i], errs[i] = open(ctx, addr, path)
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}
	return h, nil
}

func open(ctx context.Context, addr, path string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: -1}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	err = func() error {
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return err
		}
		if _, err := conn.Write(request(&Options{Addr: addr, Path: path, KeepAlive: true})); err != nil {
			return err
		}
		a, err := readAnswer(bufio.NewReaderSize(conn, 1024), nil)
		if err != nil {
			return err
		}
		if a.status != 200 || a.close {
			return fmt.Errorf("status %d, close %t", a.status, a.close)
		}
		return nil
	}()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Alive returns how many of the connections the server has not closed. It must
// not be called at the same time as Close.
func (h *Held) Alive() int {
	n := 0
	for _, c := range h.conns {
		if err := c.SetReadDeadline(time.Now().Add(time.Microsecond)); err != nil {
			continue
		}
		var b [1]byte
		var timeout net.Error
		if _, err := c.Read(b[:]); errors.As(err, &timeout) && timeout.Timeout() {
			n++ // nothing to read, and not at its end
		}
	}
	return n
}

func (h *Held) Close() error {
	var errs []error
	for _, c := range h.conns {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
