package httpapi

import (
	"reflect"
	"time"

	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
)

// Result is what the contract writes as a result's JSON.
type Result struct {
	ID          string         `json:"id"`
	Command     string         `json:"command"`
	Dir         string         `json:"dir"`
	Shell       string         `json:"shell"`
	Description string         `json:"description,omitempty"`
	Profile     string         `json:"profile"`
	Session     string         `json:"session"`
	User        string         `json:"user" doc:"UID:GID"`
	UserName    string         `json:"user_name,omitempty"`
	SessionLost string         `json:"session_lost,omitempty"`
	Status      sandbox.Status `json:"status" enum:"success,error,timeout,canceled,denied,fatal"`
	Cause       sandbox.Cause  `json:"cause" doc:"Why the command ended."`
	Message     string         `json:"message"`
	ExitCode    int            `json:"exit_code" doc:"-1: ended by a limit or the caller; -2: it never ran."`
	Signal      string         `json:"signal"`
	Method      string         `json:"method" enum:"pipe,pty,"`
	ResultStreams
	ResultEvidence
}

// ResultStreams are its streams.
type ResultStreams struct {
	Stdout         string          `json:"stdout,omitempty"`
	Stderr         string          `json:"stderr,omitempty"`
	Streams        sandbox.Streams `json:"streams,omitempty" enum:"full,view,none"`
	StdoutEncoding string          `json:"stdout_encoding" enum:"utf-8,utf-8-replaced,base64"`
	StderrEncoding string          `json:"stderr_encoding" enum:"utf-8,utf-8-replaced,base64"`
	StdoutBytes    int64           `json:"stdout_bytes"`
	StderrBytes    int64           `json:"stderr_bytes"`
	BytesTotal     int64           `json:"bytes_total"`
	StdoutLines    int64           `json:"stdout_lines"`
	StderrLines    int64           `json:"stderr_lines"`
	StdoutSHA256   string          `json:"stdout_sha256"`
	StderrSHA256   string          `json:"stderr_sha256"`
	StdoutGap      *gap            `json:"stdout_gap,omitempty"`
	StderrGap      *gap            `json:"stderr_gap,omitempty"`
	Truncated      bool            `json:"truncated"`
	DroppedBytes   int64           `json:"dropped_bytes"`
	Binary         bool            `json:"binary"`
}

type gap struct {
	Offset int   `json:"offset"`
	Bytes  int64 `json:"bytes"`
}

// ResultEvidence is what is known beyond its streams.
type ResultEvidence struct {
	Error     *Failure              `json:"error,omitempty"`
	Policy    *sandbox.Judgment     `json:"policy,omitempty"`
	View      *sandbox.Views        `json:"view,omitempty"`
	Screen    *sandbox.Shot         `json:"screen,omitempty"`
	Files     []CollectedFile       `json:"files,omitempty"`
	Summary   string                `json:"summary,omitempty"`
	Masked    int                   `json:"masked,omitempty" doc:"How many times a secret was masked."`
	Lingering []sandbox.Process     `json:"lingering" doc:"What still ran at the end."`
	Evidence  sandbox.Evidence      `json:"evidence"`
	Resources sandbox.Resources     `json:"resources"`
	Timing    timing                `json:"timing"`
	Container sandbox.ContainerInfo `json:"container"`
}

// CollectedFile is a file that the request's collect named.
type CollectedFile struct {
	Path      string `json:"path" doc:"Relative to the workdir."`
	Size      int64  `json:"size"`
	Truncated bool   `json:"truncated,omitempty" doc:"Content is only its beginning."`
	Error     string `json:"error,omitempty" doc:"Why it was not read: it is a link, for example."`
	Mode      string `json:"mode" doc:"Permissions in octal."`
	Content   string `json:"content"`
	Encoding  string `json:"encoding" enum:"utf-8,base64"`
}

// Failure is why a command did not run, or could not be followed to its end.
type Failure struct {
	Cause      sandbox.Cause     `json:"cause"`
	Message    string            `json:"message"`
	Hint       string            `json:"hint,omitempty"`
	RetryAfter float64           `json:"retry_after_seconds,omitempty"`
	Policy     *sandbox.Judgment `json:"policy,omitempty"`
}

type timing struct {
	Queued      float64 `json:"queued_ms"`
	Start       float64 `json:"start_ms"`
	FirstOutput float64 `json:"first_output_ms"`
	Total       float64 `json:"total_ms"`
}

// Event is what the contract writes as an event's JSON.
type Event struct {
	Type     sandbox.EventType `json:"type" enum:"start,stdout,stderr,notice,view,screen,result"`
	Seq      uint64            `json:"seq" doc:"Counts from 1 without gaps."`
	Time     time.Time         `json:"ts"`
	Data     string            `json:"data,omitempty"`
	Encoding string            `json:"encoding,omitempty" doc:"base64 where data is not text."`
	Binary   bool              `json:"binary,omitempty"`
	Waits    bool              `json:"waits,omitempty"`
	LeftOut  int64             `json:"left_out_bytes,omitempty" doc:"Bytes that are not there any more."`
	Start    *sandbox.Start    `json:"start,omitempty"`
	Screen   *sandbox.Shot     `json:"screen,omitempty"`
	Result   *Result           `json:"result,omitempty"`
}

// Execution is how far an execution is.
type Execution struct {
	Summary
	Result *Result `json:"result,omitempty"`
}

// shapes are the bodies that handlers write themselves.
var shapes = map[string]reflect.Type{
	"Result": reflect.TypeFor[Result](), "Event": reflect.TypeFor[Event](), "Execution": reflect.TypeFor[Execution](),
	"Chunk": reflect.TypeFor[chunk](), "Received": reflect.TypeFor[received](), "Accepted": reflect.TypeFor[accepted](),
	"Entries": reflect.TypeFor[entries](), "Change": reflect.TypeFor[change](),
}

// accepted is the answer that does not wait.
type accepted struct {
	ID string `json:"id"`
}

// content is a response with one of these shapes for each media type; "" is bytes.
func content(api huma.API, what string, media map[string]string) *huma.Response {
	r := &huma.Response{Description: "The " + what + ".", Content: map[string]*huma.MediaType{}}
	for name, shape := range media {
		schema := &huma.Schema{Type: huma.TypeString, Format: "binary"}
		if shape != "" {
			schema = api.OpenAPI().Components.Schemas.Schema(shapes[shape], true, shape)
		}
		r.Content[name] = &huma.MediaType{Schema: schema}
	}
	return r
}

func acceptedResponse(api huma.API) *huma.Response {
	r := content(api, "execution's id", map[string]string{"application/json": "Accepted"})
	r.Headers = map[string]*huma.Param{"Location": {Schema: &huma.Schema{Type: huma.TypeString}, Description: "/v1/executions/{id}"}}
	return r
}

// grant is what the contract writes as a grant's JSON.
type grant struct {
	Timeout     float64            `json:"timeout_ms,omitempty"`
	IdleTimeout float64            `json:"idle_timeout_ms,omitempty"`
	Limits      grantLimits        `json:"limits,omitempty"`
	Network     string             `json:"network,omitempty"`
	Mounts      sandbox.MountGrant `json:"mounts,omitempty" enum:"none,ro"`
	Secrets     []string           `json:"secrets,omitempty"`
}

type grantLimits struct {
	Memory int64   `json:"memory,omitempty"`
	CPUs   float64 `json:"cpus,omitempty"`
	Pids   int64   `json:"pids,omitempty"`
	Output int64   `json:"output,omitempty"`
	Result int64   `json:"result,omitempty"`
	Tmp    int64   `json:"tmp,omitempty"`
	Files  int64   `json:"files,omitempty"`
}
