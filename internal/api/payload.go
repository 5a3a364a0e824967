package api

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/value"
)

// maxText is the most bytes of a payload that are shown.
const maxText = 32 << 10

// PayloadOf shows a payload, which must not have secrets. Size is that of the payload with them.
func PayloadOf(safe value.Value, size int) Payload {
	shown := Payload{Kind: safe.Kind().String(), Size: size}
	if safe.IsError() {
		shown.Text = safe.AsError().Error()
	} else if text, err := safe.AppendJSON(nil); err != nil {
		shown.Text = err.Error()
	} else {
		var b bytes.Buffer
		if json.Indent(&b, text, "", "  ") != nil {
			b.Write(text)
		}
		shown.Text = b.String()
	}
	if len(shown.Text) > maxText {
		at := maxText
		for !utf8.RuneStart(shown.Text[at]) {
			at--
		}
		shown.Text, shown.Cut = shown.Text[:at], true
	}
	return shown
}
