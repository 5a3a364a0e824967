package top

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/uniflow-labs/uniflow/internal/api"
)

// Sequences of a terminal.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // another screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	toLineEnd   = "\x1b[K" // erases
	toScreenEnd = "\x1b[J"
	inverse     = "\x1b[7m"
	normal      = "\x1b[0m"
)

// watch shows the model in a terminal until the reader quits, or the program ends.
func watch(ctx context.Context, client *api.Client, m *model, in, out *os.File) (err error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, term.Restore(int(in.Fd()), before)) }()
	if _, err := io.WriteString(out, enterScreen); err != nil {
		return err
	}
	defer func() {
		_, left := io.WriteString(out, leaveScreen)
		err = errors.Join(err, left)
	}()

	ctx, cancel := context.WithCancelCause(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)

	var mu sync.Mutex // of the model and the screen
	draw := func() error {
		width, height, err := term.GetSize(int(out.Fd()))
		if err != nil {
			return err
		}
		_, err = io.WriteString(out, screen(m.lines(width, height)))
		return err
	}
	do := func(change func() error) error {
		mu.Lock()
		defer mu.Unlock()
		return errors.Join(change(), draw())
	}
	work.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-resized:
				if err := do(func() error { return nil }); err != nil {
					cancel(err)
				}
			}
		}
	})
	work.Go(func() {
		cancel(keys(ctx, in, func(key string) error {
			quit := false
			err := do(func() error {
				quit = m.key(key)
				return nil
			})
			if quit {
				return errEnough
			}
			return err
		}))
	})
	err = client.Events(ctx, func(e api.Event) error {
		return do(func() error {
			_, err := m.event(e)
			return err
		})
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return ended(err)
}

// screen is what a terminal is sent to show lines: the second, the head of the table, is inverse.
func screen(lines []string) string {
	var b strings.Builder
	b.WriteString(home)
	for i, line := range lines {
		if i == 1 {
			line = inverse + line + normal
		}
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + toLineEnd)
	}
	b.WriteString(toScreenEnd)
	return b.String()
}

// keys calls f with each key until the context ends.
func keys(ctx context.Context, in *os.File, f func(key string) error) error {
	buffer := make([]byte, 64)
	for {
		// A read would outlive the context, and take a key from who comes after.
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}, 100)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case ready == 0 || err != nil:
			continue
		}
		n, err := in.Read(buffer)
		if err != nil {
			return err
		}
		for rest := string(buffer[:n]); rest != ""; {
			var key string
			if key, rest = next(rest); key != "" {
				if err := f(key); err != nil {
					return err
				}
			}
		}
	}
}

// named are the keys that send more than a character, or one that is not seen.
var named = map[string]string{
	"\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left",
	"\x1b": "escape", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\x03": "ctrl-c",
}

// next takes the next key from what a terminal has sent; none for a sequence that is not known.
func next(text string) (key, rest string) {
	if strings.HasPrefix(text, "\x1b[") {
		end := 2
		for end < len(text) && (text[end] < '@' || text[end] > '~') {
			end++
		}
		end = min(end+1, len(text))
		return named[text[:end]], text[end:]
	}
	r, size := utf8.DecodeRuneInString(text)
	if key := named[text[:size]]; key != "" {
		return key, text[size:]
	}
	if r < ' ' {
		return "", text[size:]
	}
	return text[:size], text[size:]
}
