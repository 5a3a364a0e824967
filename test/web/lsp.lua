-- Neovim with editors/nvim.lua writes a workflow: it shows the finding, puts it right, and follows names.
local function fail(what) io.stderr:write(what .. "\n") vim.cmd("cquit 1") end

local ok, err = pcall(function()
  vim.cmd("edit shop.yaml")
  local function findings() return vim.diagnostic.get(0) end
  assert(vim.wait(20000, function() return #findings() == 1 end), "no finding: " .. vim.inspect(findings()))
  local finding = findings()[1]
  assert(finding.lnum == 7 - 1 and finding.code == "F3001", vim.inspect(finding))
  local client = vim.lsp.buf_get_clients(0)[1] or vim.tbl_values(vim.lsp.buf_get_clients(0))[1]
  assert(client.name == "uniflow")

  local function ask(method, params)
    local reply = vim.lsp.buf_request_sync(0, method, params, 20000)
    local first = vim.tbl_values(reply)[1]
    assert(first and not first.err and not first.error, method .. ": " .. vim.inspect(reply))
    return first.result
  end
  vim.api.nvim_win_set_cursor(0, { finding.lnum + 1, finding.col })
  local here = vim.lsp.util.make_range_params()
  here.context = { diagnostics = {} }
  local actions = ask("textDocument/codeAction", here)
  vim.lsp.util.apply_workspace_edit(actions[1].edit, client.offset_encoding)
  assert(vim.wait(20000, function() return #findings() == 0 end), "the finding stays: " .. vim.inspect(findings()))

  vim.lsp.buf.definition()
  assert(vim.wait(20000, function() return vim.fn.expand("%:t") == "prices.yaml" end), "no definition")
  assert(vim.api.nvim_win_get_cursor(0)[1] == 2)
  vim.lsp.buf.rename("cost")
  local function renamed() return vim.api.nvim_buf_get_lines(0, 1, 2, true)[1] == "  name: cost" end
  assert(vim.wait(20000, renamed), "not renamed")
  vim.api.nvim_buf_set_lines(0, -1, -1, true, { "- kind: sni" })
  vim.api.nvim_win_set_cursor(0, { vim.api.nvim_buf_line_count(0), 11 })
  local items = ask("textDocument/completion", vim.lsp.util.make_position_params())
  local labels = vim.tbl_map(function(item) return item.label end, items)
  assert(vim.tbl_contains(labels, "snippet"), vim.inspect(labels))
end)
if not ok then fail(tostring(err)) end
vim.cmd("qall!")
