package serve

import (
	"mime"
	"path"
	"strings"
)

// typeOf returns the media type of a file, by its extension alone: what the bytes look like
// would let an uploaded text become a page.
func typeOf(name string) []string {
	extension := strings.ToLower(path.Ext(name))
	if t, ok := types[extension]; ok {
		return t
	}
	if t := mime.TypeByExtension(extension); t != "" {
		return []string{t}
	}
	return typeBytes
}

var typeBytes = []string{"application/octet-stream"}

// types are those that pages need, whatever the tables of the machine say.
var types = map[string][]string{
	".avif": {"image/avif"}, ".css": {"text/css; charset=utf-8"}, ".csv": {"text/csv; charset=utf-8"},
	".gif": {"image/gif"}, ".htm": {"text/html; charset=utf-8"}, ".html": {"text/html; charset=utf-8"}, ".ico": {"image/x-icon"},
	".jpeg": {"image/jpeg"}, ".jpg": {"image/jpeg"}, ".js": {"text/javascript; charset=utf-8"}, ".json": {"application/json"},
	".map": {"application/json"}, ".md": {"text/markdown; charset=utf-8"}, ".mjs": {"text/javascript; charset=utf-8"}, ".mp3": {"audio/mpeg"},
	".mp4": {"video/mp4"}, ".otf": {"font/otf"}, ".pdf": {"application/pdf"}, ".png": {"image/png"}, ".svg": {"image/svg+xml"},
	".ttf": {"font/ttf"}, ".txt": {"text/plain; charset=utf-8"}, ".wasm": {"application/wasm"}, ".webm": {"video/webm"},
	".webmanifest": {"application/manifest+json"}, ".webp": {"image/webp"}, ".woff": {"font/woff"}, ".woff2": {"font/woff2"},
	".xml": {"application/xml"}, ".yaml": {"application/yaml"}, ".yml": {"application/yaml"}, ".zip": {"application/zip"},
}
