package streams

import (
	"log/slog"

	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// storeField is where topics are that programs share.
func storeField(pass string) *schema.Field {
	return schema.Group("store", keep.SharedFields("uniflow_topics", ". `publish` and `subscribe` with the same store and namespace have the same topics.", pass)).
		Doc("What carries payloads to other programs.")
}

// ready returns why a node is not ready, by what carries payloads.
func (h *topics) ready(outages *keep.Outages) error {
	if h.hub == nil {
		return nil
	}
	return outages.Ready(h.hub)
}

// away returns the error of a packet that cannot subscribe now.
func (h *topics) away(outages *keep.Outages) error {
	if h.hub == nil {
		return nil
	}
	err := h.hub.Ready()
	if outages.Pass(err) {
		return nil
	}
	return err
}

// message is a payload of a topic, as other programs get it.
func message(topic string, payload value.Value) []byte {
	blob, _ := keep.Encode(value.List(value.String(topic), payload)) // of an error, they see the text
	return blob
}

// got takes what another program has published.
func (h *topics) got(log *slog.Logger, message []byte) {
	v, err := keep.Decode(message)
	if err != nil || v.Len() != 2 {
		log.Warn("what another program has published cannot be read", "error", err)
		return
	}
	topic, _ := v.At(0).AsString()
	h.publish(topic, v.At(1))
}
