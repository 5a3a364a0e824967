package mail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// The parts of a message that are texts. Each is a field of the config, and of a payload that
// is a map.
const (
	partFrom    = "from"
	partTo      = "to"
	partCc      = "cc"
	partBcc     = "bcc"
	partReplyTo = "reply_to"
	partSubject = "subject"
	partText    = "text"
	partHTML    = "html"
)

func messageFields() []*schema.Field {
	return []*schema.Field{
		schema.String(partFrom).Doc("Who sends: an address such as `Shop <shop@example.com>`. Each of these texts may have expressions over the payload in it, such as `${self.mail}`; one that is not set is the field of the same name of a payload that is a map."),
		schema.String(partTo).Doc("Who gets it: addresses with commas between them. In a payload, a list of texts, too."),
		schema.String(partCc).Doc("Who gets a copy."),
		schema.String(partBcc).Doc("Who gets a copy that the others do not see."),
		schema.String(partReplyTo).Doc("Who gets the answers, if not the sender."),
		schema.String(partSubject).Doc("The subject, on one line."),
		schema.Text(partText).Doc("The text. A payload that is a text is this one."),
		schema.Text(partHTML).Doc("The same as HTML, for programs that show it. See `template` and `page`, which make HTML of a payload."),
		schema.Any("header").Doc("More headers: a map of texts."),
	}
}

// parts are the templates of a node.
type parts struct {
	set     map[string]template.Template
	headers map[gomail.Header][]string
}

func newParts(c schema.Config, compile template.CompileFunc) (p parts, err error) {
	p = parts{map[string]template.Template{}, map[gomail.Header][]string{}}
	for _, name := range []string{partFrom, partTo, partCc, partBcc, partReplyTo, partSubject, partText, partHTML} {
		if c.Has(name) {
			if p.set[name], err = template.OfField(c, name, compile); err != nil {
				return p, err
			}
		}
	}
	for name, v := range c.Value("header").Fields() {
		text, ok := v.AsString()
		if !ok || !envelope.ValidHeaderValue(text) || !isHeader(name) {
			return p, badHeader(c)
		}
		p.headers[gomail.Header(name)] = []string{text}
	}
	if v := c.Value("header"); !v.IsNull() && v.Kind() != value.KindMap {
		return p, badHeader(c)
	}
	return p, nil
}

// isHeader reports whether a name is that of a header that no other part sets.
func isHeader(name string) bool {
	switch strings.ToLower(name) {
	case "", "from", "to", "cc", "bcc", "reply-to", "subject", "date", "message-id", "mime-version", "content-type", "content-transfer-encoding":
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}

// message makes the message of a payload. id is without angle brackets.
func (p *parts) message(ctx context.Context, payload value.Value, id string, now time.Time) (*gomail.Msg, error) {
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	m.SetMessageIDWithValue(id)
	m.SetDateWithValue(now)
	for name, values := range p.headers {
		m.SetGenHeader(name, values...)
	}
	for _, of := range []struct {
		part string
		to   gomail.AddrHeader
		most int
	}{
		{partFrom, gomail.HeaderFrom, 1}, {partTo, gomail.HeaderTo, 1000}, {partCc, gomail.HeaderCc, 1000}, {partBcc, gomail.HeaderBcc, 1000}, {partReplyTo, gomail.HeaderReplyTo, 10},
	} {
		list, err := p.addresses(ctx, of.part, payload)
		if err != nil {
			return nil, err
		}
		if len(list) > of.most {
			return nil, fmt.Errorf("%s has %d addresses, and at most %d are allowed", of.part, len(list), of.most)
		}
		if len(list) > 0 {
			m.SetAddrHeaderFromMailAddress(of.to, list...)
		}
	}
	if len(m.GetFrom()) == 0 {
		return nil, errors.New("from is missing: write it in the config, or into the payload")
	}
	if recipients, err := m.GetRecipients(); err != nil || len(recipients) == 0 {
		return nil, errors.New("to is missing: write it in the config, or into the payload")
	}
	return m, p.content(ctx, m, payload)
}

// content sets the subject, the text and what is attached.
func (p *parts) content(ctx context.Context, m *gomail.Msg, payload value.Value) error {
	subject, _, err := p.text(ctx, partSubject, payload)
	if err != nil {
		return err
	}
	if strings.ContainsAny(subject, "\r\n") {
		return errors.New("subject must be one line")
	}
	m.Subject(subject)
	text, hasText, err := p.text(ctx, partText, payload)
	if err != nil {
		return err
	}
	if body, ok := payload.AsString(); ok && !hasText {
		text, hasText = body, true
	}
	html, hasHTML, err := p.text(ctx, partHTML, payload)
	switch {
	case err != nil:
		return err
	case hasText && hasHTML:
		m.SetBodyString(gomail.TypeTextPlain, text)
		m.AddAlternativeString(gomail.TypeTextHTML, html)
	case hasHTML:
		m.SetBodyString(gomail.TypeTextHTML, html)
	default: // a mail may be empty
		m.SetBodyString(gomail.TypeTextPlain, text)
	}
	list, _ := payload.Get("attachments")
	if list.Kind() != value.KindList && !list.IsNull() {
		return fmt.Errorf("attachments must be a list, got %s", list.Kind())
	}
	for i, a := range list.Elems() {
		if err := attach(m, a); err != nil {
			return fmt.Errorf("attachments[%d]: %w", i, err)
		}
	}
	return nil
}

// attach adds an attachment {name, type, data, id}. One with an id is shown within the HTML.
func attach(m *gomail.Msg, a value.Value) error {
	field := func(name string) string {
		v, _ := a.Get(name)
		text, _ := v.AsString()
		return text
	}
	name, id, mediaType := field("name"), field("id"), field("type")
	if name == "" || strings.ContainsAny(name, "\r\n/\\") {
		return errors.New("must have a name, without a path")
	}
	if strings.ContainsAny(id+mediaType, "\r\n<>") {
		return errors.New("id and type must be one line, without angle brackets")
	}
	v, _ := a.Get("data")
	data, ok := v.AsBinary()
	if !ok {
		text, isText := v.AsString()
		if !isText {
			return fmt.Errorf("data must be text or binary, got %s", v.Kind())
		}
		data = []byte(text)
	}
	var options []gomail.FileOption
	if mediaType != "" {
		options = append(options, gomail.WithFileContentType(gomail.ContentType(mediaType)))
	}
	if id == "" {
		m.AttachReadSeeker(name, bytes.NewReader(data), options...)
		return nil
	}
	m.EmbedReadSeeker(name, bytes.NewReader(data), append(options, gomail.WithFileContentID("<"+id+">"))...)
	return nil
}

// text is a part that is one text; ok is false if neither the config nor the payload has it.
func (p *parts) text(ctx context.Context, name string, payload value.Value) (text string, ok bool, err error) {
	if t, set := p.set[name]; set {
		text, err = t.Text(ctx, payload)
		return text, true, err
	}
	v, ok := payload.Get(name)
	if !ok || v.IsNull() {
		return "", false, nil
	}
	if text, ok = v.AsString(); !ok {
		return "", false, fmt.Errorf("%s must be a text, got %s", name, v.Kind())
	}
	return text, true, nil
}

// addresses is a part that is a list of addresses.
func (p *parts) addresses(ctx context.Context, name string, payload value.Value) (list []*mail.Address, err error) {
	var texts []string
	v, _ := payload.Get(name)
	if _, set := p.set[name]; !set && v.Kind() == value.KindList {
		for _, elem := range v.Elems() {
			text, ok := elem.AsString()
			if !ok {
				return nil, fmt.Errorf("%s must have texts, got %s", name, elem.Kind())
			}
			texts = append(texts, text)
		}
	} else {
		text, _, err := p.text(ctx, name, payload)
		if err != nil {
			return nil, err
		}
		texts = []string{text}
	}
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if strings.ContainsAny(text, "\r\n") {
			return nil, fmt.Errorf("%s must be one line", name)
		}
		found, err := mail.ParseAddressList(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not an address, or a list of some with commas: %w", name, text, err)
		}
		list = append(list, found...)
	}
	return list, nil
}
