package lsp

// The messages of the Language Server Protocol 3.17 that are used here, with the fields that are used.

type position struct {
	Line      int `json:"line"`      // from 0
	Character int `json:"character"` // from 0, in units of UTF-16
}

type lspRange struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

type location struct {
	URI   string   `json:"uri"`
	Range lspRange `json:"range"`
}

type textEdit struct {
	Range   lspRange `json:"range"`
	NewText string   `json:"newText"`
}

type workspaceEdit struct {
	Changes map[string][]textEdit `json:"changes"`
}

type documentID struct {
	URI string `json:"uri"`
}

type initializeParams struct {
	RootURI          string       `json:"rootUri"`
	WorkspaceFolders []documentID `json:"workspaceFolders"`
	Capabilities     struct {
		Workspace struct {
			DidChangeWatchedFiles struct {
				DynamicRegistration bool `json:"dynamicRegistration"`
			} `json:"didChangeWatchedFiles"`
		} `json:"workspace"`
		TextDocument struct {
			Completion struct {
				CompletionItem struct {
					SnippetSupport bool `json:"snippetSupport"`
				} `json:"completionItem"`
			} `json:"completion"`
		} `json:"textDocument"`
	} `json:"capabilities"`
}

type initializeResult struct {
	Capabilities serverCapabilities `json:"capabilities"`
	ServerInfo   struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"serverInfo"`
}

type serverCapabilities struct {
	TextDocumentSync struct {
		OpenClose bool `json:"openClose"`
		Change    int  `json:"change"` // 2: parts of a document
		Save      bool `json:"save"`
	} `json:"textDocumentSync"`
	CompletionProvider struct {
		TriggerCharacters []string `json:"triggerCharacters"`
	} `json:"completionProvider"`
	HoverProvider              bool            `json:"hoverProvider"`
	DefinitionProvider         bool            `json:"definitionProvider"`
	ReferencesProvider         bool            `json:"referencesProvider"`
	DocumentSymbolProvider     bool            `json:"documentSymbolProvider"`
	WorkspaceSymbolProvider    bool            `json:"workspaceSymbolProvider"`
	DocumentFormattingProvider bool            `json:"documentFormattingProvider"`
	RenameProvider             map[string]bool `json:"renameProvider"`
	CodeActionProvider         map[string]any  `json:"codeActionProvider"`
	CodeLensProvider           map[string]bool `json:"codeLensProvider"`
	ExecuteCommandProvider     map[string]any  `json:"executeCommandProvider"`
}

type didOpenParams struct {
	TextDocument struct {
		URI     string `json:"uri"`
		Version int    `json:"version"`
		Text    string `json:"text"`
	} `json:"textDocument"`
}

type didChangeParams struct {
	TextDocument struct {
		URI     string `json:"uri"`
		Version int    `json:"version"`
	} `json:"textDocument"`
	ContentChanges []struct {
		Range *lspRange `json:"range"` // nil for the whole document
		Text  string    `json:"text"`
	} `json:"contentChanges"`
}

type documentParams struct {
	TextDocument documentID `json:"textDocument"`
}

type watchedFilesParams struct {
	Changes []struct {
		URI  string `json:"uri"`
		Type int    `json:"type"` // 3: removed
	} `json:"changes"`
}

type positionParams struct {
	TextDocument documentID `json:"textDocument"`
	Position     position   `json:"position"`
}

type referenceParams struct {
	positionParams
	Context struct {
		IncludeDeclaration bool `json:"includeDeclaration"`
	} `json:"context"`
}

type renameParams struct {
	positionParams
	NewName string `json:"newName"`
}

type prepared struct {
	Range       lspRange `json:"range"`
	Placeholder string   `json:"placeholder"`
}

type markup struct {
	Kind  string `json:"kind"` // markdown
	Value string `json:"value"`
}

type hover struct {
	Contents markup   `json:"contents"`
	Range    lspRange `json:"range"`
}

type completionItem struct {
	Label            string   `json:"label"`
	Kind             int      `json:"kind"`
	Detail           string   `json:"detail,omitempty"`
	Documentation    *markup  `json:"documentation,omitempty"`
	SortText         string   `json:"sortText"`
	TextEdit         textEdit `json:"textEdit"`
	InsertTextFormat int      `json:"insertTextFormat,omitempty"` // 2: a snippet
	InsertTextMode   int      `json:"insertTextMode,omitempty"`   // 1: as it is
}

type symbol struct {
	Name           string   `json:"name"`
	Detail         string   `json:"detail"`
	Kind           int      `json:"kind"`
	Range          lspRange `json:"range"`
	SelectionRange lspRange `json:"selectionRange"`
	Children       []symbol `json:"children,omitempty"`
}

type symbolInformation struct {
	Name          string   `json:"name"`
	Kind          int      `json:"kind"`
	Location      location `json:"location"`
	ContainerName string   `json:"containerName"`
}

type diagnostic struct {
	Range    lspRange `json:"range"`
	Severity int      `json:"severity"` // 1: error, 2: warning
	Code     string   `json:"code"`
	Source   string   `json:"source"`
	Message  string   `json:"message"`
}

type publishDiagnosticsParams struct {
	URI         string       `json:"uri"`
	Version     int          `json:"version,omitempty"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

type codeActionParams struct {
	TextDocument documentID `json:"textDocument"`
	Range        lspRange   `json:"range"`
}

type codeAction struct {
	Title       string        `json:"title"`
	Kind        string        `json:"kind"`
	Diagnostics []diagnostic  `json:"diagnostics,omitempty"`
	IsPreferred bool          `json:"isPreferred,omitempty"`
	Edit        workspaceEdit `json:"edit"`
}

type command struct {
	Title     string   `json:"title"`
	Command   string   `json:"command"`
	Arguments []string `json:"arguments"`
}

type codeLens struct {
	Range   lspRange `json:"range"`
	Command command  `json:"command"`
}

type executeParams struct {
	Command   string   `json:"command"`
	Arguments []string `json:"arguments"`
}

type showMessageParams struct {
	Type    int    `json:"type"` // 1: error, 3: information
	Message string `json:"message"`
}

// Kinds of completion items and of symbols, by the protocol.
const (
	itemModule   = 9
	itemProperty = 10
	itemValue    = 12
	itemVariable = 6
	itemRef      = 18
	itemEnum     = 20
	symbolObject = 19
)
