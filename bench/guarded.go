package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uniflow-labs/uniflow/bench/server"
)

// tokenSecret signs the tokens of the guarded API, as guarded.yaml has it.
const tokenSecret = "a secret of at least thirty-two bytes"

// token returns the line of a header with a token that may order.
func token() (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(tokenSecret)}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	text, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: "https://id.example.com", Subject: "ann", Audience: jwt.Audience{"orders"}, Expiry: jwt.NewNumericDate(time.Now().Add(24 * time.Hour)),
	}).Claims(map[string]any{"scope": "orders:read orders:write"}).Serialize()
	return "Authorization: Bearer " + text + "\r\n", err
}

// measureGuarded is N8. The baseline is the same by hand with the libraries of auth and
// validate, in the faster of two forms.
func measureGuarded(ctx context.Context, l *lab, line Line) (rows []Row, err error) {
	header, err := token()
	if err != nil {
		return nil, err
	}
	forms, err := guardedByHand()
	if err != nil {
		return nil, err
	}
	ours := server.Workflow{Name: "uniflow", Document: server.Guarded, Path: "/orders", Status: http.StatusMethodNotAllowed}
	return l.againstHand(ctx, line, ours, "/orders", forms, header, func(ctx context.Context, servers []*server.Server, paths map[string]string) error {
		for _, s := range servers {
			if err := guards(ctx, "http://"+s.Addr+paths[s.Name], header); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
		return nil
	})
}

// guards fails unless an API takes an order with a token, and refuses one without, and one
// that is against the schema.
func guards(ctx context.Context, url, header string) error {
	f := func(header, body, want string) error {
		got, err := post(ctx, url, body, header)
		if err == nil && !strings.HasPrefix(got, want) {
			err = fmt.Errorf("got %s, want %s", got, want)
		}
		return err
	}
	if err := f(header, server.Order, `201 Created application/json {"state":"accepted","customer":"ada.lovelace@example.com","lines":[{"sku":"tea","count":3,"total":1350}`); err != nil {
		return err
	}
	if err := f("", server.Order, "401 "); err != nil {
		return err
	}
	if err := f(strings.Replace(header, "\r\n", "x\r\n", 1), server.Order, "401 "); err != nil {
		return err
	}
	return f(header, strings.Replace(server.Order, `"count":3`, `"count":0`, 1), "422 ")
}

// guardedSchema is the schema in guarded.yaml.
const guardedSchema = `{"type": "object", "required": ["customer", "lines"], "additionalProperties": false, "properties": {
	"customer": {"type": "string", "minLength": 1, "maxLength": 200}, "note": {"type": "string", "maxLength": 1000},
	"lines": {"type": "array", "minItems": 1, "maxItems": 100, "items": {"type": "object", "required": ["sku", "count"], "additionalProperties": false, "properties": {
		"sku": {"enum": ["tea", "coffee", "cocoa", "mate"]}, "count": {"type": "integer", "minimum": 1, "maximum": 1000000}}}}}}`

// guardedByHand are two ways to write the guarded API: decode the body for the schema and
// once more into structs, or use what the schema was checked with.
func guardedByHand() ([]form, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(guardedSchema))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("order.json", doc); err != nil {
		return nil, err
	}
	schema, err := compiler.Compile("order.json")
	if err != nil {
		return nil, err
	}
	guarded := func(priced func(body []byte, checked any) (any, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if status := knows(r); status != http.StatusOK {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, http.StatusText(status), status)
				return
			}
			body, err := io.ReadAll(r.Body)
			var checked any
			if err == nil {
				err = json.Unmarshal(body, &checked)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			if err := schema.Validate(checked); err != nil {
				http.Error(w, err.Error(), http.StatusUnprocessableEntity)
				return
			}
			answer, err := priced(body, checked)
			var out bytes.Buffer
			if err == nil {
				err = json.NewEncoder(&out).Encode(answer)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			w.Write(out.Bytes()) //nolint:errcheck // the client is gone
		}
	}
	return []form{
		{"guarded-structs", guarded(func(body []byte, _ any) (any, error) {
			var o order
			if err := json.Unmarshal(body, &o); err != nil {
				return nil, err
			}
			p := &priced{State: "accepted", Customer: o.Customer, Lines: make([]pricedLine, 0, len(o.Lines))}
			for _, l := range o.Lines {
				p.Lines = append(p.Lines, pricedLine{l.SKU, l.Count, prices[l.SKU] * l.Count})
			}
			return p, nil
		})},
		{"guarded-maps", guarded(func(_ []byte, checked any) (any, error) {
			o := checked.(map[string]any)
			lines := o["lines"].([]any)
			p := &priced{State: "accepted", Customer: o["customer"].(string), Lines: make([]pricedLine, 0, len(lines))}
			for _, each := range lines {
				l := each.(map[string]any)
				sku, count := l["sku"].(string), int(l["count"].(float64))
				p.Lines = append(p.Lines, pricedLine{sku, count, prices[sku] * count})
			}
			return p, nil
		})},
	}, nil
}

// knows returns 200 if a request has a token that may order, and the status of the refusal
// otherwise.
func knows(r *http.Request) int {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return http.StatusUnauthorized
	}
	parsed, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.HS256})
	if err != nil {
		return http.StatusUnauthorized
	}
	var claims jwt.Claims
	var more struct {
		Scope string `json:"scope"`
	}
	if err := parsed.Claims([]byte(tokenSecret), &claims, &more); err != nil {
		return http.StatusUnauthorized
	}
	expected := jwt.Expected{Issuer: "https://id.example.com", AnyAudience: jwt.Audience{"orders"}, Time: time.Now()}
	if err := claims.ValidateWithLeeway(expected, 30*time.Second); err != nil || claims.Expiry == nil {
		return http.StatusUnauthorized
	}
	if !slices.Contains(strings.Fields(more.Scope), "orders:write") {
		return http.StatusForbidden
	}
	return http.StatusOK
}
