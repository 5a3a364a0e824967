package lsp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
)

// maxMessage is the most bytes of a message of an editor.
const maxMessage = 64 << 20

// frames are messages behind headers with their lengths. The library has such a channel, which takes memory
// for whatever length a header says.
type frames struct {
	in  *bufio.Reader
	out io.Writer
}

// Recv implements [channel.Channel].
func (f *frames) Recv() ([]byte, error) {
	header, err := textproto.NewReader(f.in).ReadMIMEHeader()
	if err != nil {
		if errors.Is(err, io.EOF) && len(header) == 0 {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("want a header with Content-Length: %w", err)
	}
	n, err := strconv.ParseUint(header.Get("Content-Length"), 10, 63)
	if err != nil || n > maxMessage {
		return nil, fmt.Errorf("Content-Length: want a number up to %d, got %q", maxMessage, header.Get("Content-Length"))
	}
	data := make([]byte, n)
	_, err = io.ReadFull(f.in, data)
	return data, err
}

// Send implements [channel.Channel].
func (f *frames) Send(data []byte) error {
	_, err := fmt.Fprintf(f.out, "Content-Length: %d\r\n\r\n%s", len(data), data)
	return err
}

// Close implements [channel.Channel]. The streams are not of the channel.
func (f *frames) Close() error { return nil }
