package flame

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dop251/goja"
)

// page is as much of a browser as the script uses. Its frames are [name, detail,
// x, y, width].
const page = `
var listeners = {};
var window = {
  answer: null,
  prompt: function () { return this.answer; },
  addEventListener: function (event, f) { listeners[event] = f; }
};
function element(attributes) {
  var e = {
    attributes: attributes, classes: {}, textContent: "", heard: {}, parts: {},
    getAttribute: function (k) { return String(this.attributes[k]); },
    setAttribute: function (k, v) { this.attributes[k] = v; },
    addEventListener: function (event, f) { this.heard[event] = f; },
    querySelector: function (k) { return this.parts[k]; }
  };
  e.classList = {
    toggle: function (c, on) { e.classes[c] = on; },
    add: function (c) { e.classes[c] = true; }
  };
  return e;
}
var frames = data.map(function (f) {
  var g = element({});
  g.parts = { rect: element({ x: f[2], y: f[3], width: f[4] }), text: element({ x: f[2] + 3 }), title: element({}) };
  g.parts.title.textContent = f[0] + "\n" + f[1] + "\n1 s, 5 %";
  return g;
});
var ids = { flame: element({}), found: element({}), reset: element({}), search: element({}) };
ids.flame.querySelectorAll = function () { return frames; };
var document = { getElementById: function (id) { return ids[id]; } };
function seen() {
  return frames.map(function (g) {
    var r = g.parts.rect.attributes;
    return g.attributes.visibility === "hidden" ? "-" :
      Math.round(r.x) + "+" + Math.round(r.width) + (g.classes.up ? " up" : "") + (g.classes.hit ? " hit" : "") + " " + g.parts.text.textContent;
  }).join("; ");
}
`

// TestScript clicks, searches and goes back.
func TestScript(t *testing.T) {
	vm := goja.New()
	data, err := json.Marshal([][]any{
		{"all", "", 0, 30, 1200},
		{"pong", "snippet", 0, 47, 600}, {"js.Run", "example.com/js", 0, 64, 600}, {"value.Map", "value", 0, 81, 60},
		{"in", "listener", 600, 47, 300}, {"net/http.(*conn).serve", "net/http", 600, 64, 30},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := func(code, want string) {
		t.Helper()
		v, err := vm.RunString(code)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.String(); want != "" && got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", code, got, want)
		}
	}
	f("var data = "+string(data)+";"+page, "")
	f(script+"; ids.search.attributes.visibility", "visible")
	f("frames[2].heard.click(); seen()", "0+1200 up all; 0+1200 up pong; 0+1200 js.Run; 0+120 value.Map; -; -")
	f("ids.reset.attributes.visibility", "visible")
	f("frames[5].heard.click(); seen()", "0+1200 up all; -; -; -; 0+1200 up in; 0+1200 net/http.(*conn).serve")
	const whole = "0+1200 all; 0+600 pong; 0+600 js.Run; 0+60 value.M…; 600+300 in; 600+30 ne…"
	f("frames[5].heard.click(); seen()", whole)
	f("ids.reset.attributes.visibility", "hidden")
	f("window.answer = 'VALUE'; ids.search.heard.click(); ids.found.textContent", "found: 5.0 %")
	f("frames[3].classes.hit", "true")
	f("window.answer = 'e'; ids.search.heard.click(); ids.found.textContent", "found: 75.0 %") // of frames in each other once
	f("window.answer = '5 %'; ids.search.heard.click(); ids.found.textContent", "found: 0.0 %")
	f("listeners.keydown({key: 'Escape'}); ids.found.textContent + frames[3].classes.hit", "false")
	f("frames[4].heard.click(); ids.reset.heard.click(); seen()", whole)
}

// TestScriptFits compares the measures of the script with those of the picture, and
// finds nothing in it that would end its section.
func TestScriptFits(t *testing.T) {
	for _, part := range []string{"all = 1200", "gap = 3", "charWidth = 6.7"} {
		if !strings.Contains(script, part) {
			t.Errorf("got no %q in the script", part)
		}
	}
	for _, part := range []string{"]]>", "innerHTML", "eval", "http:"} {
		if strings.Contains(script, part) {
			t.Errorf("got %q in the script", part)
		}
	}
}
