package s3

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
)

// partSize is how large the parts of an object are, of which partsTogether are sent at the same time.
const partSize, partsTogether = 16 << 20, 4

// abortTimeout bounds removing what has begun of an object.
const abortTimeout = 5 * time.Second

// put writes an object, a large one in parts. That of the client is not used for these: it removes
// what has begun while other parts are under way, which are then kept, and paid for, although they
// are not seen; and it checks conditions when an upload begins, and not when it ends.
func (s *store) put(ctx context.Context, key string, data []byte, o minio.PutObjectOptions) (info minio.UploadInfo, err error) {
	if len(data) <= partSize {
		return s.api.Client.PutObject(ctx, s.bucket, key, bytes.NewReader(data), int64(len(data)), o)
	}
	upload, err := s.api.NewMultipartUpload(ctx, s.bucket, key, o)
	if err != nil {
		return info, err
	}
	parts, err := s.putParts(ctx, key, upload, data)
	if err == nil {
		conditions := o
		conditions.ContentType, conditions.UserMetadata, conditions.StorageClass = "", nil, "" // they are of its beginning
		info, err = s.api.CompleteMultipartUpload(ctx, s.bucket, key, upload, parts, conditions)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		_ = s.api.AbortMultipartUpload(ctx, s.bucket, key, upload) // err says more; a service that is away keeps the parts
	}
	return info, err
}

// putParts sends the parts, and returns when none is under way. After an error it begins no more, and
// lets the others end: a service goes on with a part whose connection is gone.
func (s *store) putParts(ctx context.Context, key, upload string, data []byte) ([]minio.CompletePart, error) {
	begins, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	parts := make([]minio.CompletePart, (len(data)+partSize-1)/partSize)
	turns := make(chan struct{}, partsTogether)
	var work sync.WaitGroup
	for i := range parts {
		if turns <- struct{}{}; begins.Err() != nil {
			break
		}
		work.Go(func() {
			defer func() { <-turns }()
			chunk := data[i*partSize : min((i+1)*partSize, len(data))]
			part, err := s.api.PutObjectPart(ctx, s.bucket, key, upload, i+1, bytes.NewReader(chunk), int64(len(chunk)), minio.PutObjectPartOptions{})
			if err != nil {
				stop(err)
			}
			parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: part.ETag}
		})
	}
	work.Wait()
	return parts, context.Cause(begins)
}
