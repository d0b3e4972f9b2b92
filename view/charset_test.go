package view

import (
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"

	"belljar/sandbox"
)

const (
	german   = "Größe der Datei übersteigt die zulässige Länge.\nÜberprüfen Sie bitte den Platz für diese Maßnahme.\n"
	russian  = "Не удаётся найти указанный файл.\nПроверьте, что путь указан правильно, и повторите попытку.\n"
	japanish = "指定されたファイルが見つかりません。\nパスが正しいことを確認してください。エラーが発生しました。\n"
	chinese  = "系统找不到指定的文件。\n请检查路径是否正确,然后再试一次。编译失败,因为没有这个目录。\n"
	taiwan   = "系統找不到指定的檔案。\n請檢查路徑是否正確,然後再試一次。我們的程式在這個目錄中沒有找到。\n"
	korea    = "지정된 파일을 찾을 수 없습니다.\n경로가 올바른지 확인하고 다시 시도하십시오.\n"
)

func TestViewCharset(t *testing.T) {
	utf16 := unicode.UTF16
	for name, c := range map[string]struct {
		enc            encoding.Encoding
		declared, want string
		text           string
	}{
		"windows-1252 detected": {charmap.Windows1252, "", "windows-1252", german},
		"windows-1251 detected": {charmap.Windows1251, "", "windows-1251", russian},
		"koi8-r detected":       {charmap.KOI8R, "", "koi8-r", russian},
		"shift_jis detected":    {japanese.ShiftJIS, "", "shift_jis", japanish},
		"euc-jp detected":       {japanese.EUCJP, "", "euc-jp", japanish},
		"gb18030 detected":      {simplifiedchinese.GB18030, "", "gb18030", chinese},
		"big5 detected":         {traditionalchinese.Big5, "", "big5", taiwan},
		"euc-kr detected":       {korean.EUCKR, "", "euc-kr", korea},
		"late":                  {charmap.Windows1252, "", "windows-1252", strings.Repeat("nothing to see\n", 1000) + german},
		"declared":              {charmap.ISO8859_15, "Latin-9", "iso-8859-15", "10 €\n"},
		"declared by IANA":      {charmap.CodePage437, "IBM437", "ibm437", "┌─┐ü\n"},
		"ISO-2022-JP declared":  {japanese.ISO2022JP, "iso-2022-jp", "iso-2022-jp", japanish},
		"GBK declared":          {simplifiedchinese.GBK, "GBK", "gbk", chinese},
		"unknown":               {encoding.Nop, "no-such-charset", "utf-8", german},
		"declared UTF-8":        {encoding.Nop, "utf8", "utf-8", german},
		"UTF-16LE BOM":          {utf16(unicode.LittleEndian, unicode.ExpectBOM), "", "utf-16le", chinese},
		"UTF-16BE BOM":          {utf16(unicode.BigEndian, unicode.ExpectBOM), "latin1", "utf-16be", russian + "😀\n"},
		"UTF-16LE":              {utf16(unicode.LittleEndian, unicode.IgnoreBOM), "", "utf-16le", german + "😀\n"},
		"UTF-16BE":              {utf16(unicode.BigEndian, unicode.IgnoreBOM), "", "utf-16be", german},
		"UTF-16LE declared":     {utf16(unicode.LittleEndian, unicode.IgnoreBOM), "UTF-16LE", "utf-16le", "中国\n"},
		"UTF-16BE declared":     {utf16(unicode.BigEndian, unicode.IgnoreBOM), "utf-16be", "utf-16be", "ગુજરાતી\n"},
		"UTF-16LE, unicode":     {utf16(unicode.LittleEndian, unicode.IgnoreBOM), "Unicode", "utf-16le", "中国\n"},
		"UTF-16LE, ucs-2":       {utf16(unicode.LittleEndian, unicode.IgnoreBOM), "ucs-2", "utf-16le", "中国\n"},
		"UTF-16LE, csUnicode":   {utf16(unicode.LittleEndian, unicode.IgnoreBOM), "csUnicode", "utf-16le", "中国\n"},
		"UTF-16LE, csUTF16":     {utf16(unicode.LittleEndian, unicode.IgnoreBOM), "csUTF16", "utf-16le", "中国\n"},
		"UTF-16BE, csUTF16BE":   {utf16(unicode.BigEndian, unicode.IgnoreBOM), "csUTF16BE", "utf-16be", "中国\n"},
		"UTF-16BE, unicodefffe": {utf16(unicode.BigEndian, unicode.IgnoreBOM), "unicodeFFFE", "utf-16be", "中国\n"},
		"UTF-32LE BOM":          {utf32.UTF32(utf32.LittleEndian, utf32.UseBOM), "", "utf-32le", russian},
		"UTF-32BE":              {utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM), "", "utf-32be", german},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := c.enc.NewEncoder().String(c.text)
			if err != nil {
				t.Fatal(err)
			}
			v := sandbox.View{Charset: c.declared}
			want := sandbox.Text{Text: c.text, Charset: c.want}
			for n := 0; n < len(raw); n += 1 + n/10 {
				if got := viewOf(v, raw, n, 1, 2, 3); got != want {
					t.Fatalf("divided at %d:\ngot  %+v\nwant %+v", n, got, want)
				}
			}
			v.Bytes, v.TailOnly = 60, true
			got := viewOf(v, raw)
			mark, tail, found := strings.Cut(got.Text, "\n")
			if !found || !strings.HasPrefix(mark, "[…") {
				mark, tail = "", got.Text
			}
			shown, _ := c.enc.NewEncoder().String(tail)
			if strings.Contains(name, "BOM") || strings.HasPrefix(name, "ISO-2022") {
				return // the encoder begins again
			}
			if len(tail) > 60 || len(tail) < min(60, len(c.text))-40 || int64(len(shown))+got.OmittedBytes != int64(len(raw)) {
				t.Errorf("%d bytes are shown of %d: %s %+v", len(shown), len(raw), mark, got)
			}
		})
	}
}

func TestKnownCharset(t *testing.T) {
	for _, name := range []string{"utf-8", "UTF8", "latin1", "ISO-8859-15", "windows-1252", "cp1252", "Shift_JIS", "sjis", "EUC-KR", "gb18030", "Big5", "koi8-r", "utf-16", "UTF-16BE", "utf-32", "IBM437", "macintosh", "us-ascii"} {
		if !KnownCharset(name) {
			t.Errorf("%s is not known", name)
		}
		if c := (Viewer{}).Charset(name); c != (Viewer{}).Charset(c) {
			t.Errorf("%s is %s, which is another", name, c)
		}
	}
	for _, name := range []string{"", "none", "utf-9", "iso-2022-kr", "hz-gb-2312", "x-user-defined", "replacement", "utf-7"} {
		if KnownCharset(name) || (Viewer{}).Charset(name) != name {
			t.Errorf("%s is known", name)
		}
	}
}
