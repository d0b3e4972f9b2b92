package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"belljar/sandbox"
)

// made is an archive of these headers, each with as many bytes as it says.
func made(t testing.TB, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
			w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestReaderRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		headers []tar.Header
		says    string
	}{
		"up":                     {[]tar.Header{{Name: "../x"}}, `"../x" leaves the directory`},
		"up in the middle":       {[]tar.Header{{Name: "a/../../x"}}, `"a/../../x" leaves the directory`},
		"up that stays":          {[]tar.Header{{Name: "a/../x"}}, `"a/../x" leaves the directory`},
		"absolute":               {[]tar.Header{{Name: "/etc/x"}}, `"/etc/x" is not a relative name`},
		"a file as top":          {[]tar.Header{{Name: "."}}, `"." is not a file name`},
		"a link":                 {[]tar.Header{{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc"}}, `"a" is a symbolic link`},
		"a hard link":            {[]tar.Header{{Name: "a"}, {Name: "b", Typeflag: tar.TypeLink, Linkname: "a"}}, `"b" is a hard link`},
		"a device":               {[]tar.Header{{Name: "sda", Typeflag: tar.TypeBlock}}, `"sda" is a device`},
		"a terminal":             {[]tar.Header{{Name: "tty", Typeflag: tar.TypeChar}}, `"tty" is a device`},
		"a FIFO":                 {[]tar.Header{{Name: "f", Typeflag: tar.TypeFifo}}, `"f" is a FIFO`},
		"twice":                  {[]tar.Header{{Name: "a"}, {Name: "./a"}}, `"./a" is in the archive twice`},
		"a file and a directory": {[]tar.Header{{Name: "a/", Typeflag: tar.TypeDir}, {Name: "a"}}, `"a" is in the archive twice`},
		"a long name":            {[]tar.Header{{Name: strings.Repeat("a/", 2100) + "a"}}, "is too long"},
		"a long element":         {[]tar.Header{{Name: strings.Repeat("a", 256)}}, "is too long"},
		"escapes":                {[]tar.Header{{Name: "\x1b[31m", Typeflag: tar.TypeFifo}}, `"\x1b[31m" is a FIFO`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Copy(tar.NewWriter(io.Discard), NewReader(made(t, test.headers...)), "")
			if sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// Once a bug: a header that is too long was the engine's failure.
func TestReaderRefusesLongHeaders(t *testing.T) {
	b := made(t, tar.Header{Name: "x", Size: 2 << 20, Format: tar.FormatGNU}).Bytes()
	b[156] = tar.TypeXHeader
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	if _, err := Copy(tar.NewWriter(io.Discard), NewReader(bytes.NewReader(b)), ""); sandbox.CauseOf(err) != sandbox.CauseInvalid {
		t.Errorf("%v", err)
	}
	broken := errors.New("the connection broke")
	if _, err := Copy(tar.NewWriter(io.Discard), NewReader(io.MultiReader(bytes.NewReader(b[:1000]), iotest.ErrReader(broken))), ""); !errors.Is(err, broken) || sandbox.CauseOf(err) == sandbox.CauseInvalid {
		t.Errorf("%v", err)
	}
}

// Headers alone claim what an archive has: none of it is read, or held in memory.
func TestReaderBounds(t *testing.T) {
	claims := func(size int64) []byte {
		var b bytes.Buffer
		tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "huge", Size: size, Format: tar.FormatGNU})
		return b.Bytes()
	}
	long := func() []byte { // a PAX header without an entry
		b := made(t, tar.Header{Name: "x", Format: tar.FormatPAX, PAXRecords: map[string]string{"K.x": strings.Repeat("x", 1<<19)}}).Bytes()
		return b[:512+1<<19+512]
	}()
	many := func() io.Reader {
		r, w := io.Pipe()
		go func() {
			to := tar.NewWriter(w)
			for i := range MaxEntries + 1 {
				if to.WriteHeader(&tar.Header{Name: fmt.Sprint(i)}) != nil {
					return
				}
			}
		}()
		return r
	}
	for name, test := range map[string]struct {
		from io.Reader
		says string
	}{
		"10 GiB":             {bytes.NewReader(claims(10 << 30)), `more than 1 GiB, with "huge"`},
		"one byte too many":  {bytes.NewReader(claims(MaxBytes + 1)), `more than 1 GiB, with "huge"`},
		"too many entries":   {many(), "more than 100000 files"},
		"headers on headers": {endless{long}.reader(), "does not end within"},
		"zeros":              {endless{make([]byte, 1<<20)}.reader(), "does not end within"},
		"letters":            {strings.NewReader(strings.Repeat("x", 1<<20)), "reading the tar archive"},
		"cut":                {bytes.NewReader(claims(100)), "reading the tar archive"},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(test.from)
			r.raw.left = min(r.raw.left, 64<<20) // reading more takes long
			_, err := Copy(tar.NewWriter(io.Discard), r, "")
			if c, ok := test.from.(io.Closer); ok {
				c.Close()
			}
			if sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}

type endless struct{ again []byte }

func (e endless) reader() io.Reader { return &repeating{e.again, nil} }

type repeating struct{ again, rest []byte }

func (r *repeating) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		r.rest = r.again
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func TestCopy(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	r := NewReader(made(t,
		tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "git archive"}},
		tar.Header{Name: "./d/", Typeflag: tar.TypeDir, Mode: 0o7777, Uid: 7, Uname: "eve"},
		tar.Header{Name: "d//f", Size: 3, Mode: 0o4755, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x"}},
		tar.Header{Name: "d/\xff\n", Size: 1, Format: tar.FormatGNU},
		tar.Header{Name: "d/" + strings.Repeat("ü", 120), Size: 1},
	))
	if n, err := Copy(w, r, "d"); n != 4 || err != nil || w.Close() != nil || r.bytes != 5 {
		t.Fatalf("%d entries, %d bytes, %v", n, r.bytes, err)
	}
	got := ""
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got += fmt.Sprintf("%q %o %d %d %q %d\n", h.Name, h.Mode, h.Size, h.Uid, h.Uname, len(h.PAXRecords))
	}
	want := `"d/" 777 0 0 "" 0
"d/f" 755 3 0 "" 0
"d/\xff\n" 0 1 0 "" 0
"d/` + strings.Repeat("ü", 120) + `" 0 1 0 "" 0
`
	if got != want {
		t.Errorf("got %s", got)
	}
	_, err := Copy(tar.NewWriter(io.Discard), NewReader(made(t, tar.Header{Name: "dd/x"})), "d")
	if !strings.Contains(fmt.Sprint(err), `"dd/x" was not asked for`) {
		t.Error(err)
	}
}

// What fuzzing finds may be refused, but what passes is below one directory.
func FuzzReader(f *testing.F) {
	f.Add(made(f, tar.Header{Name: "a/", Typeflag: tar.TypeDir}, tar.Header{Name: "a/b", Size: 3}).Bytes())
	f.Add(made(f, tar.Header{Name: "../b", Size: 3}).Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if _, err := Copy(w, NewReader(bytes.NewReader(text)), ""); err != nil {
			return
		}
		w.Close()
		for r := tar.NewReader(&b); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			name, err := cleanName(h.Name)
			if err != nil || name == ".." || h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir || h.Mode&^0o777 != 0 {
				t.Fatalf("%+v, %v", h, err)
			}
		}
	})
}
