package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
)

// textLine is a nonblank line without its line break.
type textLine struct {
	number int
	text   []byte
}

// maxLine is the maximum length of a line: the largest payload in base64, plus the other fields.
const maxLine = maxPayload/3*4 + 16<<20

// linesOf yields the nonblank lines of a reader. It keeps only one line in memory.
func linesOf(ctx context.Context, in io.Reader) iter.Seq2[textLine, error] {
	return func(yield func(textLine, error) bool) {
		r := bufio.NewReaderSize(in, 64<<10)
		for number := 1; ; number++ {
			if err := ctx.Err(); err != nil {
				yield(textLine{}, err)
				return
			}
			var line []byte
			var err error
			for more := true; more; {
				var part []byte
				part, err = r.ReadSlice('\n')
				line = append(line, part...)
				if more = errors.Is(err, bufio.ErrBufferFull); more && len(line) > maxLine {
					yield(textLine{}, fmt.Errorf("line %d is longer than %d bytes", number, maxLine))
					return
				}
			}
			if err != nil && !errors.Is(err, io.EOF) {
				yield(textLine{}, err)
				return
			}
			if text := bytes.TrimSpace(line); len(text) > 0 && !yield(textLine{number, text}, nil) {
				return
			}
			if err != nil {
				return
			}
		}
	}
}
