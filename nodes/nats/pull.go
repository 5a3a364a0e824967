package nats

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// ask asks for messages if half of the room has not been asked for. Bytes are split
// between the requests that are open, as a server does not say which one it answers.
func (r *jetStreamReader) ask(room stream.Room, read int) error {
	if r.asked == 0 {
		r.reserved = 0
	}
	want := room.Messages - read - r.asked
	bytes := (room.Bytes - r.reserved) / 2
	if want <= 0 || r.asked > 0 && (want < r.asked || bytes < room.Bytes/4) {
		return nil
	}
	body := make([]byte, 0, 96)
	if r.large && r.asked == 0 {
		want, bytes = 1, 0
	}
	body = strconv.AppendInt(append(body, `{"batch":`...), int64(want), 10)
	if bytes > 0 {
		body = strconv.AppendInt(append(body, `,"max_bytes":`...), bytes, 10)
	}
	body = strconv.AppendInt(append(body, `,"expires":`...), int64(pullExpiry), 10)
	body = strconv.AppendInt(append(body, `,"idle_heartbeat":`...), int64(pullHeartbeat), 10)
	body = append(body, '}')
	if err := r.conn.Load().PublishRequest(r.pull.request, r.pull.inbox, body); err != nil {
		return r.lostError(err)
	}
	r.asked += want
	r.reserved += bytes
	r.large = false
	return nil
}

// control handles a message of the server about a request for messages.
func (r *jetStreamReader) control(m *nats.Msg) error {
	status, text := m.Header.Get("Status"), strings.ToLower(m.Header.Get("Description"))
	switch {
	case status == "100": // a sign of life
		return nil
	case status == "408", status == "404", status == "409" && (strings.Contains(text, "maxbytes") || strings.Contains(text, "batch completed")):
		left, _ := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		bytes, _ := strconv.ParseInt(m.Header.Get("Nats-Pending-Bytes"), 10, 64)
		r.asked = max(0, r.asked-left)
		r.reserved = max(0, r.reserved-bytes)
		r.large = strings.Contains(text, "maxbytes")
		return nil
	case status == "503":
		text = "the consumer is gone"
	}
	return r.lostError(fmt.Errorf("stream %s: %s", r.spec.stream, text))
}
