package mcp

import (
	_ "github.com/modelcontextprotocol/go-sdk/mcp"
)
