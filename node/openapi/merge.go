package openapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/value"
)

// mergeContent adds the media types that only the second of two responses has.
func mergeContent(a, b value.Value) value.Value {
	content, _ := a.Get("content")
	more, ok := b.Get("content")
	if !ok {
		return a
	}
	for media, v := range more.Fields() {
		if _, there := content.Get(media); !there {
			content = content.With(media, v)
		}
	}
	return a.With("content", content)
}

// require adds what a request must have.
func (o *operation) require(fragment value.Value) {
	parameters, _ := fragment.Get("parameters")
	for _, p := range parameters.Elems() {
		if !slices.ContainsFunc(o.parameters, func(q value.Value) bool { return sameParameter(p, q) }) {
			o.parameters = append(o.parameters, p)
		}
	}
	if body, ok := fragment.Get("requestBody"); ok && o.body.IsNull() {
		o.body = body
	}
	security, ok := fragment.Get("security")
	if !ok {
		return
	}
	if !o.secured {
		o.secured = true
		for _, s := range security.Elems() {
			o.security = append(o.security, s)
		}
		return
	}
	var both []value.Value // one of the first, and one of the second
	for _, a := range o.security {
		for _, b := range security.Elems() {
			with := a
			for name, scopes := range b.Fields() {
				with = with.With(name, scopes)
			}
			both = append(both, with)
		}
	}
	o.security = both
}

func sameParameter(p, q value.Value) bool {
	same := func(key string) bool {
		a, _ := p.Get(key)
		b, _ := q.Get(key)
		return a.Equal(b)
	}
	return same("name") && same("in")
}

// allParameters returns the parameters of the path, and the others.
func (o *operation) allParameters() []value.Value {
	var list []value.Value
	for i, name := range o.pathNames {
		p := value.Map(
			field("name", text(name)), field("in", text("path")), field("required", value.Bool(true)),
			field("schema", value.Map(field("type", text("string")), field("minLength", value.Int(1)))),
		)
		for _, q := range o.parameters {
			written, _ := q.Get("name")
			in, _ := q.Get("in")
			if in.Equal(text("path")) && i < len(o.renamed) && written.Equal(text(o.renamed[i])) {
				p = q.With("name", text(name)).With("required", value.Bool(true))
			}
		}
		list = append(list, p)
	}
	for _, q := range o.parameters {
		if in, _ := q.Get("in"); !in.Equal(text("path")) {
			list = append(list, q)
		}
	}
	return list
}

// object returns the Operation Object for a method, with what the author of the route says
// of it.
func (o *operation) object(method string, doc value.Value, b *builder) value.Value {
	if len(o.early) > 0 {
		o = o.clone()
		for _, e := range o.early {
			if e.method == method {
				o.respond(e.status, e.response)
			}
		}
	}
	var op value.MapBuilder
	for _, key := range []string{"tags", "summary", "description"} {
		if v, ok := doc.Get(key); ok {
			op.Set(key, v)
		}
	}
	if id, ok := doc.Get("id"); ok {
		op.Set("operationId", id)
	}
	if list := o.allParameters(); len(list) > 0 {
		op.Set("parameters", value.List(list...))
	}
	if !o.body.IsNull() {
		op.Set("requestBody", o.body)
	}
	op.Set("responses", o.allResponses(doc, b))
	if v, ok := doc.Get("deprecated"); ok {
		op.Set("deprecated", v)
	}
	if o.secured {
		op.Set("security", value.List(o.security...))
	}
	return op.Build()
}

// allResponses returns the responses by status. What the author says of one wins.
func (o *operation) allResponses(doc value.Value, b *builder) value.Value {
	all := maps.Clone(o.responses)
	for _, c := range common {
		status := strconv.Itoa(c.status)
		if _, there := all[status]; !there && (!c.needsPath || len(o.pathNames) > 0 && !o.unrouted) {
			all[status], _ = Failure(c.status, "").Get(status)
		}
	}
	if o.handled {
		for status, response := range all {
			if status >= "400" {
				all[status] = response.Without("content")
			}
		}
	}
	written, _ := doc.Get("responses")
	for status, response := range written.Fields() {
		all[status] = o.responseOf(status, response)
	}
	documented := false // what the author says of successes is all
	for status := range written.Fields() {
		documented = documented || status < "400"
	}
	if o.open && !documented {
		other := value.Map(field("description", text("The answer.")))
		if err, ok := all[anyStatus]; ok {
			other = err.With("description", text("The answer, or an error."))
		}
		all[anyStatus] = other
	}
	success := o.open
	for status := range all {
		success = success || status < "400"
	}
	if !success && o.ends {
		all["200"] = value.Map(field("description", text("The answer.")))
	}
	b.component("schemas", "Problem", problemSchema())
	fields := make([]value.Field, 0, len(all))
	for _, status := range slices.Sorted(maps.Keys(all)) {
		fields = append(fields, field(status, b.share(status, all[status])))
	}
	return value.UniqueMap(fields)
}

// share makes a response to an error a component: most operations have the same.
func (b *builder) share(status string, response value.Value) value.Value {
	n, _ := strconv.Atoi(status)
	name := strings.NewReplacer(" ", "", "'", "").Replace(http.StatusText(n))
	if _, isRef := response.Get("$ref"); isRef || status < "400" || name == "" {
		return response
	}
	return ref(reference("responses", b.component("responses", name, response)))
}

// responseOf returns a response that an author has written: a description, or a Response
// Object, in which schema stands for the content as JSON, or as problem details if the
// status is an error.
func (o *operation) responseOf(status string, v value.Value) value.Value {
	if v.Kind() == value.KindString {
		v = value.Map(field("description", v))
		if status >= "400" && !o.handled {
			n, _ := strconv.Atoi(status)
			description, _ := v.Get("description")
			response, _ := Failure(n, description.String()).Get(status)
			return response
		}
		return v
	}
	if s, ok := v.Get("schema"); ok {
		media := value.Map(field("schema", s))
		if example, ok := v.Get("example"); ok {
			media = media.With("example", example)
		}
		v = v.Without("schema").Without("example").With("content", value.Map(field("application/json", media)))
	}
	if _, ok := v.Get("description"); !ok {
		v = v.With("description", text("The answer."))
	}
	return v
}
