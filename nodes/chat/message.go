package chat

import (
	"github.com/uniflow-labs/uniflow/value"
)

// What a message is about.
const (
	eventMessage = "message" // a user has said something
	eventCommand = "command" // the text begins with a command, such as /help
	eventAction  = "action"  // a button was pressed, whose data is in data
	eventJoin    = "join"    // a user has come
)

// An incoming message is what a user has said, in the form that all platforms have in common.
type incoming struct {
	platform     string
	conversation string // unique among all platforms; the key of [node.ConversationOf]
	userID       string
	userName     string
	text         string
	event        string
	data         value.Value // of a button, or the arguments of a command
	files        []file
	id           string      // unique in its conversation
	raw          value.Value // as the platform sent it; null for the widget
}

var (
	incomingShape = value.NewShape("platform", "conversation", "user", "text", "event", "data", "files", "id", "raw")
	userShape     = value.NewShape("id", "name")
	fileShape     = value.NewShape("name", "type", "size", "url")
)

// payload is what a process gets.
func (m *incoming) payload() value.Value {
	files := make([]value.Value, len(m.files))
	for i, f := range m.files {
		files[i] = fileShape.Map(value.String(f.Name), value.String(f.Type), value.Int(f.Size), value.String(f.URL))
	}
	return incomingShape.Map(
		value.String(m.platform), value.String(m.conversation),
		userShape.Map(value.String(m.userID), value.String(m.userName)),
		value.String(m.text), value.String(m.event), m.data, value.List(files...), value.String(m.id), m.raw,
	)
}

// A file is one that came with a message, or goes with an answer.
type file struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	Type string `json:"type,omitempty"`
	Size int64  `json:"size,omitempty"` // bytes; 0 if that is not known
}

// A button is something to press below an answer. Either Data comes back as a message, or
// URL is opened.
type button struct {
	Text string `json:"text"`
	Data string `json:"data,omitempty"`
	URL  string `json:"url,omitempty"`
}
