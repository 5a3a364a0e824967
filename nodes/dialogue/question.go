package dialogue

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// questionFields returns the fields of a question: of ask, and of each field of a form.
func questionFields() []*schema.Field {
	return []*schema.Field{
		schema.Any("choices").Doc("What may be chosen, a list: of texts, of `{text, data}`, or an expression that makes one, as in `\"${self.orders}\"`. The answer is the text, or the data."),
		schema.Any("schema").Doc("A JSON Schema that the answer must fit, as `validate` has it. A text that reads like the number, the boolean, the list or the map that it asks for becomes one."),
		schema.String("again").Doc("What is said when an answer does not fit; `${error}` says why, `${self.answer}` is the answer. Unset is that and the question."),
	}
}

// A question is what a node asks. It is immutable.
type question struct {
	name             string // of a form's field
	text, again      template.Template
	choices          template.Template
	asks, says, pick bool // there are text, again and choices
	shape            *shape
}

// newQuestion reads the fields of a question.
func newQuestion(c schema.Config, compile template.CompileFunc, warn func(*diag.Diagnostic)) (q question, err error) {
	q.asks, q.says, q.pick = c.Has("text"), c.Has("again"), c.Has("choices")
	if q.pick && c.Has("schema") {
		return q, c.Errorf("schema", diag.CodeBadValue, "is there as well as choices").WithHint("leave one of them out: an answer that was chosen needs no schema")
	}
	if q.text, err = template.OfField(c, "text", compile); err != nil {
		return q, err
	}
	if q.again, err = template.OfField(c, "again", compile); err != nil {
		return q, err
	}
	if q.choices, err = template.OfField(c, "choices", compile); err != nil {
		return q, err
	}
	if q.pick && q.choices.Constant() {
		list, _, err := q.choices.Render(context.Background(), value.Null())
		if err == nil {
			_, err = choicesOf(list)
		}
		if err != nil {
			return q, c.Errorf("choices", diag.CodeBadValue, "%s", err).WithHint("want a list such as [yes, no], or [{text: Yes, data: 1}]")
		}
	}
	if c.Has("schema") {
		if q.shape, err = shapeOf(c, warn); err != nil {
			return q, err
		}
	}
	return q, nil
}

// A choice is one of those that a question gives.
type choice struct {
	text string
	data value.Value
}

// maxChoices bounds them: a person has to read them.
const maxChoices = 100

func choicesOf(list value.Value) (all []choice, err error) {
	if list.Kind() != value.KindList || list.Len() == 0 || list.Len() > maxChoices {
		return nil, fmt.Errorf("want a list of 1 to %d choices, got %s", maxChoices, what(list))
	}
	for i, item := range list.Elems() {
		c := choice{text: plain(item), data: item}
		if item.Kind() == value.KindMap {
			text, _ := item.Get("text")
			c.text = plain(text)
			if data, ok := item.Get("data"); ok {
				c.data = data
			} else {
				c.data = text
			}
		}
		if c.text == "" {
			return nil, fmt.Errorf("choice %d has no text", i+1)
		}
		all = append(all, c)
	}
	return all, nil
}

// plain returns a text, a number or a boolean as text; "" for anything else.
func plain(v value.Value) string {
	switch v.Kind() {
	case value.KindString:
		s, _ := v.AsString()
		return s
	case value.KindInt, value.KindUint, value.KindFloat, value.KindBool:
		return v.String()
	}
	return ""
}

// what describes a value without its contents.
func what(v value.Value) string {
	switch v.Kind() {
	case value.KindList:
		return fmt.Sprintf("a list of %d", v.Len())
	case value.KindNull:
		return "null"
	case value.KindInt, value.KindUint, value.KindError:
		return "an " + v.Kind().String()
	}
	return "a " + v.Kind().String()
}

// A reply is a message that came for a question.
type reply struct {
	text string      // "" if there is none
	data value.Value // of a button, or what else is not a text; null if there is none
}

// replyOf reads a message: a text, or a map with data (of a button), text or body.
func replyOf(message value.Value) reply {
	if message.Kind() != value.KindMap {
		if text := plain(message); text != "" || message.Kind() == value.KindString {
			return reply{text: text}
		}
		return reply{data: message}
	}
	if data, ok := message.Get("data"); ok && !data.IsNull() {
		text, _ := message.Get("text")
		return reply{text: plain(text), data: data}
	}
	if text, ok := message.Get("text"); ok {
		return reply{text: plain(text)}
	}
	if body, ok := message.Get("body"); ok {
		if _, nested := body.Get("body"); !nested {
			return replyOf(body)
		}
	}
	return reply{data: message}
}

// fit returns the answer that a reply gives, or what is wrong with it.
func (q *question) fit(r reply, choices []choice) (answer value.Value, problem string) {
	if q.pick {
		return pick(r, choices)
	}
	answer = r.data
	if answer.IsNull() {
		answer = value.String(r.text)
	}
	if q.shape == nil {
		return answer, ""
	}
	if text, ok := answer.AsString(); ok {
		return q.shape.read(text)
	}
	return answer, q.shape.problem(answer)
}

// pick returns the data of the choice that a reply names: by its data, by its text in any
// case, or by its number.
func pick(r reply, choices []choice) (answer value.Value, problem string) {
	said := strings.TrimSpace(r.text)
	for _, c := range choices {
		if !r.data.IsNull() && (r.data.Equal(c.data) || plain(r.data) != "" && plain(r.data) == plain(c.data)) {
			return c.data, ""
		}
	}
	for _, c := range choices {
		if said != "" && strings.EqualFold(said, strings.TrimSpace(c.text)) {
			return c.data, ""
		}
	}
	if i, err := strconv.Atoi(said); err == nil && i >= 1 && i <= len(choices) {
		return choices[i-1].data, ""
	}
	texts := make([]string, len(choices))
	for i, c := range choices {
		texts[i] = c.text
	}
	return answer, "Please choose one of: " + strings.Join(texts, ", ") + "."
}

// part returns what is said to ask the question: {text}, and buttons if there are choices.
func part(text string, choices []choice) value.Value {
	fields := []value.Field{{Name: "text", Value: value.String(text)}}
	if len(choices) > 0 {
		buttons := make([]value.Value, len(choices))
		for i, c := range choices {
			buttons[i] = button.Map(value.String(c.text), c.data)
		}
		fields = append(fields, value.Field{Name: "buttons", Value: value.List(buttons...)})
	}
	return value.Map(fields...)
}

var button = value.NewShape("text", "data")
