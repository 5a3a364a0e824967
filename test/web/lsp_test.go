package web_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The files of a project: a link leads from one to the other, to a name that is misspelled.
const (
	projectShop = `- kind: listener
  host: 127.0.0.1
  name: web
  port: 0
  ports: {out: router}
- {kind: router, name: router, routes: [{method: GET, path: /, port: "out[0]"}],
   annotations: {note: "🙂"}, ports: {"out[0]": pric}}
`
	projectPrices = `- kind: snippet
  name: price
  language: cel
  code: '{"total": 12}'
- kind: test
  name: prices
  ports: {"out[0]": price, "out[1]": right}
- {kind: assert, name: right, expect: self.total == 12}
`
)

// TestLSP writes a workflow as an editor does, with Microsoft's library of the Language Server Protocol, and
// with Neovim.
func TestLSP(t *testing.T) {
	if err := install(); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, editor := range []string{"node", "nvim"} {
		t.Run(editor, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "shop.yaml"), projectShop)
			write(t, filepath.Join(dir, "prices.yaml"), projectPrices)
			cmd := exec.CommandContext(t.Context(), "node", "lsp.cjs", self, dir)
			if editor == "nvim" {
				lua, err := filepath.Abs(filepath.Join("..", "..", "editors", "nvim.lua"))
				if err != nil {
					t.Fatal(err)
				}
				script, err := filepath.Abs("lsp.lua")
				if err != nil {
					t.Fatal(err)
				}
				cmd = exec.CommandContext(t.Context(), "nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n",
					"--cmd", "filetype on", "--cmd", "let g:uniflow = '"+self+"'", "-c", "luafile "+lua, "-c", "luafile "+script)
				cmd.Dir = dir
			}
			modules, err := filepath.Abs(filepath.Join(packages, "node_modules"))
			if err != nil {
				t.Fatal(err)
			}
			cmd.Env = append(os.Environ(), "NODE_PATH="+modules, asProgram+"=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}
