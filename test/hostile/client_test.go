//go:build linux && !race

package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// front answers without any work, so that all cost comes from the attack.
const front = `
- kind: listener
  name: listener
  protocol: http
  host: 127.0.0.1
  port: PORT
  access_log: true
  limits: {header_timeout: 5s, idle_timeout: 20s, request_timeout: 10s}
  ports:
    out: [{name: router, port: in}]
- kind: router
  name: router
  routes:
    - {method: GET, path: /small, port: 'out[0]'}
    - {method: GET, path: /large, port: 'out[1]'}
    - {method: POST, path: /null, port: 'out[2]'}
  ports:
    out[0]: [{name: small, port: in}]
    out[1]: [{name: large, port: in}]
    out[2]: [{name: 'null', port: in}]
- {kind: snippet, name: small, language: text, code: ok}
- {kind: snippet, name: large, language: text, code: 'LARGE'}
- {kind: snippet, name: 'null', language: json, code: 'null'}
`

// answers attacks with clients that send requests and do not read the answers.
func answers(t *testing.T) {
	large := strings.Replace(front, "LARGE", strings.Repeat("x", 8<<10), 1)
	t.Run("HTTP/2 with windows of zero", func(t *testing.T) {
		s := serve(t, 1024*mib, large)
		var conns []net.Conn
		for range scale(20, 66) {
			conns = append(conns, s.unreading("/large", scale(200, 250)))
		}
		s.alive()
		s.closed(conns)
		s.peak(600 * mib)
	})
	t.Run("pipelining", func(t *testing.T) {
		s := serve(t, 1024*mib, strings.Replace(front, "LARGE", strings.Repeat("x", 30000), 1))
		var conns []net.Conn
		for range scale(40, 160) {
			conn := s.dial()
			request := fmt.Sprintf("GET /large HTTP/1.1\r\nHost: %s\r\n\r\n", s.addr)
			if _, err := io.WriteString(conn, strings.Repeat(request, 300)); err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		s.alive()
		s.closed(conns)
		s.peak(600 * mib)
	})
}

// closed waits until the server has closed the connections, none of which reads,
// while others are answered all the time.
func (s *target) closed(conns []net.Conn) {
	s.t.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for _, conn := range conns {
		all.Go(func() {
			for s.open(conn) {
				if time.Since(began) > 2*time.Minute {
					s.t.Error("a connection that does not read is open after two minutes")
					return
				}
				s.wait(250 * time.Millisecond)
			}
		})
	}
	finished := make(chan struct{})
	go func() { all.Wait(); close(finished) }()
	asked, slowest := 0, time.Duration(0)
	for {
		start := time.Now()
		if err := s.small(5 * time.Second); err != nil {
			s.t.Errorf("another client, after %v: %v", time.Since(began), err)
		}
		asked, slowest = asked+1, max(slowest, time.Since(start))
		select {
		case <-finished:
			s.t.Logf("%d connections closed within %v; others: %d requests, the slowest %v", len(conns), time.Since(began), asked, slowest)
			return
		case <-s.done:
			s.t.Fatalf("the program has ended: %v\n%s", s.err, s.output())
		default:
			s.wait(50 * time.Millisecond)
		}
	}
}

// open reports whether a connection is established at both ends. It asks the kernel,
// because a read would make room for answers, and the server may close the connection
// because of a write.
func (s *target) open(conn net.Conn) bool {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		s.t.Error(err)
		return false
	}
	const established = 1 // TCP_ESTABLISHED
	state := uint8(0)
	err = raw.Control(func(fd uintptr) {
		if info, failed := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); failed == nil {
			state = info.State
		}
	})
	return err == nil && state == established
}

// wait lets time pass between two checks of the server.
func (s *target) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.done:
	}
}

// unreading opens an HTTP/2 connection whose streams have no window, so that the
// server may not send a byte of an answer.
func (s *target) unreading(path string, streams int) net.Conn {
	s.t.Helper()
	frame := func(kind, flags byte, stream uint32, payload []byte) []byte {
		head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
		return append(binary.BigEndian.AppendUint32(head, stream), payload...)
	}
	literal := func(index byte, text string) []byte { return append([]byte{index, byte(len(text))}, text...) }
	const settings, headers, endOfStreamAndHeaders = 4, 1, 5
	block := append([]byte{0x82, 0x86}, append(literal(4, path), literal(1, s.addr)...)...) // GET, http

	out := bytes.NewBufferString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	out.Write(frame(settings, 0, 0, []byte{0, 4, 0, 0, 0, 0})) // SETTINGS_INITIAL_WINDOW_SIZE = 0
	for i := range streams {
		out.Write(frame(headers, endOfStreamAndHeaders, uint32(2*i+1), block))
	}
	conn := s.dial()
	if _, err := conn.Write(out.Bytes()); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// bodies attacks with what clients send.
func bodies(t *testing.T) {
	document := strings.Replace(front, "LARGE", "x", 1)
	t.Run("small and packed", func(t *testing.T) {
		// No client is slow here on purpose, but they share two processors with the server.
		document := strings.Replace(document, "header_timeout: 5s", "header_timeout: 30s", 1)
		for name, unit := range map[string]string{"zeros": "0,", "maps": "{},", "lists": "[],"} {
			s := serve(t, 1024*mib, document)
			body := packed(t, []byte("["+strings.TrimSuffix(strings.Repeat(unit, 8_000_000/len(unit)), ",")+"]"))
			header := map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}
			var all sync.WaitGroup
			for _, path := range []string{"/null", "/nowhere", "/small"} {
				for range scale(32, 64) {
					all.Go(func() {
						if _, _, err := s.ask(2*time.Minute, http.MethodPost, path, header, body); err != nil {
							t.Errorf("%s %s: %v", name, path, err)
						}
					})
				}
			}
			all.Wait()
			t.Logf("%s: %d bytes a request", name, len(body))
			s.alive()
			s.peak(768 * mib)
		}
	})
	t.Run("held back", func(t *testing.T) {
		s := serve(t, 1024*mib, document)
		var conns []net.Conn
		for range 34 {
			conn := s.dial()
			fmt.Fprintf(conn, "POST /null HTTP/1.1\r\nHost: %s\r\nContent-Type: application/octet-stream\r\nContent-Length: 8388000\r\n\r\n", s.addr)
			if _, err := conn.Write(make([]byte, 8_000_000)); err != nil {
				t.Logf("a body was refused: %v", err) // for want of memory, which is right
			}
			conns = append(conns, conn)
		}
		s.await("an answer for another body", time.Minute, func() error {
			status, _, err := s.ask(5*time.Second, http.MethodPost, "/null", map[string]string{"Content-Type": "application/json"}, []byte(`{"a":1}`))
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("status %d", status)
			}
			return err
		})
		s.closed(conns)
		s.peak(768 * mib)
	})
	t.Run("quoted", func(t *testing.T) {
		s := serve(t, 1024*mib, document)
		for _, fill := range []string{"\x01", "a"} {
			before := s.written()
			body := packed(t, []byte("--b\r\n"+strings.Repeat(fill, 8_000_000)))
			status, answer, err := s.ask(30*time.Second, http.MethodPost, "/null", map[string]string{
				"Content-Type": "multipart/form-data; boundary=b", "Content-Encoding": "gzip",
			}, body)
			if err != nil || status != http.StatusBadRequest || len(answer) > 2000 {
				t.Errorf("got status %d, %d bytes, error %v, want 400 and a short answer", status, len(answer), err)
			}
			if logged := s.written() - before; logged > 4000 {
				t.Errorf("%d bytes of a request are %d bytes in the log", len(body), logged)
			}
		}
	})
	t.Run("two lengths", func(t *testing.T) {
		s := serve(t, 1024*mib, document)
		conn := s.dial()
		fmt.Fprintf(conn, "POST /null HTTP/1.1\r\nHost: %s\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+
			"GET /small HTTP/1.1\r\nHost: %s\r\n\r\n", s.addr, s.addr)
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		output, err := io.ReadAll(conn)
		if n := bytes.Count(output, []byte("HTTP/1.1 ")); n != 1 || err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
			t.Errorf("got %d answers and %v, want one answer and a closed connection: %.500q", n, err, output)
		}
	})
}

// packed returns the text compressed by gzip.
func packed(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
