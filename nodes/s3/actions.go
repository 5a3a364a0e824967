package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// do does the action.
func (n *objectNode) do(ctx context.Context, payload value.Value) (value.Value, error) {
	texts := make(map[string]string, len(n.texts))
	for name, t := range n.texts {
		text, err := t.Text(ctx, payload)
		if err != nil {
			return value.Value{}, err
		}
		texts[name] = text
	}
	key := texts["key"]
	if n.action != "list" {
		if err := checkKey(key); err != nil {
			return value.Value{}, node.Unusable("key", err)
		}
	}
	var out value.Value
	var err error
	switch n.action {
	case "get":
		out, err = n.get(ctx, key, texts)
	case "head":
		out, err = n.head(ctx, key, texts)
	case "put":
		out, err = n.put(ctx, key, texts, payload)
	case "copy":
		out, err = n.copy(ctx, key, texts)
	case "list":
		out, err = n.list(ctx, key, texts["after"])
	case "delete":
		err = n.store.api.RemoveObject(ctx, n.store.bucket, key, minio.RemoveObjectOptions{VersionID: texts["version"]})
		out = deletedShape.Map(value.String(key))
	case "sign":
		out, err = n.sign(ctx, key, texts["version"])
	}
	if described := (*node.Error)(nil); err != nil && !errors.As(err, &described) {
		err = n.store.failure(err, key)
	}
	return out, err
}

var (
	deletedShape = value.NewShape("key")
	storedShape  = value.NewShape("key", "etag", "version", "size")
	signedShape  = value.NewShape("url", "method", "expires")
	listedShape  = value.NewShape("key", "size", "etag", "modified")
	pageShape    = value.NewShape("objects", "next")
)

// conditions are those of requests that read.
func conditions(texts map[string]string) (o minio.GetObjectOptions, err error) {
	o.VersionID = texts["version"]
	if etag := unquoted(texts["if_match"]); etag != "" {
		err = o.SetMatchETag(etag)
	}
	if etag := unquoted(texts["if_none_match"]); etag != "" && err == nil {
		err = o.SetMatchETagExcept(etag)
	}
	return o, err
}

// unquoted returns an ETag without the quotes that HTTP has around it.
func unquoted(etag string) string { return strings.Trim(etag, `"`) }

func (n *objectNode) get(ctx context.Context, key string, texts map[string]string) (out value.Value, err error) {
	o, err := conditions(texts)
	if err != nil {
		return out, node.Unusable("if_match", err)
	}
	answer, info, _, err := n.store.api.GetObject(ctx, n.store.bucket, key, o)
	if err != nil {
		return out, err
	}
	defer answer.Close()
	if info.Size > n.maxBody {
		return out, &node.Error{Err: fmt.Errorf("%s has %d bytes, more than max_body, which is %d", n.store.place(key), info.Size, n.maxBody), Status: 500, Code: "too_large", Permanent: true}
	}
	if !n.held.Take(info.Size) {
		return out, &node.Error{Err: fmt.Errorf("%s has %d bytes, and the program has not as much memory left (raise --memory)", n.store.place(key), info.Size), Status: 503, Code: "busy"}
	}
	defer n.held.Free(info.Size) // the payload counts it from here
	data := make([]byte, info.Size)
	if _, err := io.ReadFull(answer, data); err != nil {
		if err == io.EOF && info.Size > 0 {
			err = io.ErrUnexpectedEOF
		}
		return out, err
	}
	body, err := n.decoded(data)
	if err != nil {
		return out, &node.Error{Err: fmt.Errorf("%s is not JSON: %w", n.store.place(key), err), Status: 502, Code: "decode", Data: value.String(key)}
	}
	return described(&info, key, &body), nil
}

func (n *objectNode) decoded(data []byte) (value.Value, error) {
	switch {
	case n.decode == "text":
		return value.String(string(data)), nil
	case n.decode == "raw":
		return value.Binary(data), nil
	case len(data) == 0:
		return value.Null(), nil
	}
	return value.ParseJSON(data)
}

func (n *objectNode) head(ctx context.Context, key string, texts map[string]string) (out value.Value, err error) {
	o, err := conditions(texts)
	if err != nil {
		return out, node.Unusable("if_match", err)
	}
	info, err := n.store.api.StatObject(ctx, n.store.bucket, key, o)
	if err != nil {
		return out, err
	}
	return described(&info, key, nil), nil
}

// described returns what is known of an object, with its body if there is one.
func described(info *minio.ObjectInfo, key string, body *value.Value) value.Value {
	var b value.MapBuilder
	b.Set("key", value.String(key))
	if body != nil {
		b.Set("body", *body)
	}
	b.Set("size", value.Int(info.Size))
	b.Set("etag", value.String(info.ETag))
	b.Set("version", versionOf(info.VersionID))
	b.Set("content_type", value.String(info.ContentType))
	b.Set("modified", value.Time(info.LastModified))
	var metadata value.MapBuilder
	for name, text := range info.UserMetadata {
		metadata.Set(strings.ToLower(name), value.String(text))
	}
	b.Set("metadata", metadata.Build())
	return b.Build()
}

func (n *objectNode) put(ctx context.Context, key string, texts map[string]string, payload value.Value) (out value.Value, err error) {
	v, err := n.body.Eval(ctx, payload)
	if err != nil {
		return out, err
	}
	data, contentType, err := n.encoded(v)
	if err != nil {
		return out, node.Unusable("encode", err)
	}
	o := minio.PutObjectOptions{ContentType: contentType}
	if given, ok := texts["content_type"]; ok {
		o.ContentType = given
	}
	if n.metadata != nil {
		doc, _, err := n.metadata.Render(ctx, payload)
		if err == nil {
			o.UserMetadata, err = textsOf(doc)
		}
		if err != nil {
			return out, node.Unusable("metadata", err)
		}
	}
	if etag := unquoted(texts["if_match"]); etag != "" {
		o.SetMatchETag(etag)
	}
	if etag := unquoted(texts["if_none_match"]); etag != "" {
		o.SetMatchETagExcept(etag)
	}
	info, err := n.store.put(ctx, key, data, o)
	if err != nil {
		return out, err
	}
	return storedShape.Map(value.String(key), value.String(info.ETag), versionOf(info.VersionID), value.Int(int64(len(data)))), nil
}

// encoded returns the bytes of a body, and their type.
func (n *objectNode) encoded(v value.Value) (data []byte, contentType string, err error) {
	switch n.encode {
	case "text":
		return []byte(v.String()), "text/plain; charset=utf-8", nil
	case "json":
		data, err = v.AppendJSON(nil)
		return data, "application/json", err
	}
	if data, ok := v.AsBinary(); ok {
		return data, "application/octet-stream", nil
	}
	text, ok := v.AsString()
	if !ok {
		return nil, "", fmt.Errorf("body: must be text or binary, got %s; encode: json takes any value", v.Kind())
	}
	return []byte(text), "text/plain; charset=utf-8", nil
}

func (n *objectNode) copy(ctx context.Context, key string, texts map[string]string) (out value.Value, err error) {
	from := minio.CopySrcOptions{
		Bucket: n.fromBucket, Object: texts["from"], VersionID: texts["version"],
		MatchETag: unquoted(texts["if_match"]), NoMatchETag: unquoted(texts["if_none_match"]),
	}
	if err := checkKey(from.Object); err != nil {
		return out, node.Unusable("from", err)
	}
	info, err := n.store.api.ComposeObject(ctx, minio.CopyDestOptions{Bucket: n.store.bucket, Object: key}, from) // in parts, if it is large
	if err != nil {
		return out, n.store.failure(err, from.Object)
	}
	return storedShape.Map(value.String(key), value.String(info.ETag), versionOf(info.VersionID), value.Int(info.Size)), nil
}

// list returns one page.
func (n *objectNode) list(ctx context.Context, prefix, after string) (out value.Value, err error) {
	// One more than the limit shows that there is another page.
	infos, err := n.store.list(ctx, minio.ListObjectsOptions{Prefix: prefix, Recursive: true, StartAfter: after, MaxKeys: min(n.limit+1, maxPage)}, n.limit+1)
	if err != nil {
		return out, err
	}
	next := value.Null()
	if len(infos) > n.limit {
		infos = infos[:n.limit]
		next = value.String(infos[n.limit-1].Key)
	}
	objects := make([]value.Value, len(infos))
	for i, info := range infos {
		objects[i] = listedShape.Map(value.String(info.Key), value.Int(info.Size), value.String(info.ETag), value.Time(info.LastModified))
	}
	return pageShape.Map(value.List(objects...), next), nil
}

// sign makes a URL, which says nothing of whether there is such an object.
func (n *objectNode) sign(ctx context.Context, key, version string) (out value.Value, err error) {
	params := make(map[string][]string)
	if version != "" {
		params["versionId"] = []string{version}
	}
	method := map[string]string{"get": http.MethodGet, "put": http.MethodPut, "head": http.MethodHead, "delete": http.MethodDelete}[n.method]
	u, err := n.store.api.Presign(ctx, method, n.store.bucket, key, n.expires, params)
	if err != nil {
		return out, node.Unusable("sign", err)
	}
	return signedShape.Map(value.String(u.String()), value.String(method), value.Time(time.Now().Add(n.expires).UTC().Truncate(time.Second))), nil
}
