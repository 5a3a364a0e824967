-- Uniflow in Neovim 0.7 and later: source this file from init.lua, as with
--   dofile("PATH/editors/nvim.lua")
-- It starts one uniflow lsp for each project: the folder with uniflow.yaml or .git above a document.
local function root(file)
  local dir = vim.fn.fnamemodify(file, ":p:h")
  local at = dir
  while true do
    if vim.fn.filereadable(at .. "/uniflow.yaml") == 1 or vim.fn.isdirectory(at .. "/.git") == 1 then return at end
    local up = vim.fn.fnamemodify(at, ":h")
    if up == at then return dir end
    at = up
  end
end

local servers = {}

local function attach(event)
  local folder = root(event.file)
  if not servers[folder] then
    servers[folder] = vim.lsp.start_client({
      name = "uniflow",
      cmd = { vim.g.uniflow or "uniflow", "lsp" },
      root_dir = folder,
      cmd_cwd = folder,
      workspace_folders = { { uri = vim.uri_from_fname(folder), name = folder } },
      on_exit = function() servers[folder] = nil end,
    })
  end
  if servers[folder] then vim.lsp.buf_attach_client(event.buf, servers[folder]) end
end

vim.api.nvim_create_autocmd("FileType", { pattern = { "yaml", "json" }, callback = attach })
