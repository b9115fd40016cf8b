package console

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/vdi-fleet/vdi-fleet/hub/console/impersonation"
)

// Options are the options of the console. Their flags in AddFlags document them.
type Options struct {
	// Version of the console, for the user agent of its requests. No flag sets it.
	Version string
	// Namespace of the Secret with the keys.
	Namespace         string
	SessionNamespaces []string
	// URL is the address of the console, without a path.
	URL           string
	Impersonation string
	LoginLifetime time.Duration
	ServerOptions
	OIDCOptions
	UsersOptions
	KubeAPIQPS   float32
	KubeAPIBurst int
}

// ServerOptions are about the addresses that the console listens on.
type ServerOptions struct {
	BindAddress, MetricsBindAddress, HealthProbeBindAddress string
	MetricsAuthentication                                   bool
	// TLSCertFile and TLSKeyFile are both set, or both empty if TLS ends before the console.
	TLSCertFile, TLSKeyFile string
	TrustedProxies          []string
}

// OIDCOptions are about an identity provider. The flags are named as those of the API server.
type OIDCOptions struct {
	IssuerURL, ClientID, ClientSecretFile, CAFile            string
	UsernameClaim, UsernamePrefix, GroupsClaim, GroupsPrefix string
	RequiredClaims                                           map[string]string
	GroupsPattern                                            string
	Scopes                                                   []string
}

// UsersOptions are about a file of users.
type UsersOptions struct {
	UsersFile      string
	AllowUsersFile bool
}

// AddFlags defines the flags that set the options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Namespace, "namespace", "vdi-system", "Namespace of the Secret with the console's keys.")
	fs.StringSliceVar(&o.SessionNamespaces, "session-namespaces", nil, "Namespaces in which users have sessions: those of the hub. Required.")
	fs.StringVar(&o.URL, "url", "", "Address of the console, as browsers know it: https://vdi.example.com. Required. http is accepted for hosts that end in localhost.")
	fs.StringVar(&o.Impersonation, "impersonation", string(impersonation.Constrained), "How the API server permits the console to act as users: constrained, for vdi.kasm.io alone (Kubernetes 1.36), or legacy, for everything.")
	fs.DurationVar(&o.LoginLifetime, "login-lifetime", 12*time.Hour, "Time after which a user has to log in again; at most 24h.")
	fs.StringVar(&o.BindAddress, "bind-address", ":8088", "Address on which the pages are served.")
	fs.StringVar(&o.TLSCertFile, "tls-cert-file", "", "Certificate of the pages (PEM). Empty if TLS ends before the console.")
	fs.StringVar(&o.TLSKeyFile, "tls-key-file", "", "Key of the pages (PEM).")
	fs.StringSliceVar(&o.TrustedProxies, "trusted-proxies", nil, "Networks (CIDR) of the proxies before the console, whose X-Forwarded-For names the client.")
	fs.StringVar(&o.MetricsBindAddress, "metrics-bind-address", ":8080", "Address on which metrics are served; 0 disables them.")
	fs.BoolVar(&o.MetricsAuthentication, "metrics-authentication", true, "Serve metrics over HTTPS, to callers whom the hub's API server authenticates by their bearer token and allows to get /metrics. If false, they are served over HTTP to all who reach the port.")
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", ":8081", "Address on which /healthz and /readyz are served.")
	fs.StringVar(&o.IssuerURL, "oidc-issuer-url", "", "Identity provider. Empty for none.")
	fs.StringVar(&o.ClientID, "oidc-client-id", "", "ID of the console at the identity provider. Its redirect URI there is URL/login/callback.")
	fs.StringVar(&o.ClientSecretFile, "oidc-client-secret-file", "", "File with the secret of that client. Empty for a public client.")
	fs.StringVar(&o.CAFile, "oidc-ca-file", "", "Authorities that the identity provider's certificate is verified with (PEM); by default the public ones.")
	fs.StringVar(&o.UsernameClaim, "oidc-username-claim", "sub", "Claim with the user's name, as at the API server.")
	fs.StringVar(&o.UsernamePrefix, "oidc-username-prefix", "", "Prefix of the names of users, as at the API server: by default the issuer and #, unless the claim is email; - for none.")
	fs.StringVar(&o.GroupsClaim, "oidc-groups-claim", "", "Claim with the user's groups, as at the API server.")
	fs.StringVar(&o.GroupsPrefix, "oidc-groups-prefix", "", "Prefix of the names of groups, as at the API server.")
	fs.StringToStringVar(&o.RequiredClaims, "oidc-required-claim", nil, "Claims that a user must have, name=value; may be repeated.")
	fs.StringVar(&o.GroupsPattern, "oidc-groups-pattern", "", "Regular expression of the groups that are used, by their names before the prefix: a login has space for some dozens. Empty for all.")
	fs.StringSliceVar(&o.Scopes, "oidc-scopes", []string{"profile", "email"}, "Scopes in addition to openid.")
	fs.StringVar(&o.UsersFile, "users-file", "", "File of users with passwords (bcrypt), for trials. Empty for none.")
	fs.BoolVar(&o.AllowUsersFile, "allow-users-file", false, "Permit --users-file for a console whose host does not end in localhost.")
	fs.Float32Var(&o.KubeAPIQPS, "kube-api-qps", 200, "Requests a second to the hub's API server.")
	fs.IntVar(&o.KubeAPIBurst, "kube-api-burst", 400, "Burst of requests to the hub's API server.")
}

// maxLoginLifetime is for how long a key is accepted after its last use.
const maxLoginLifetime = 24 * time.Hour

// Validate returns an error for invalid options.
func (o *Options) Validate() error {
	errs := []error{o.validateURL(), o.validateLogins(), o.validateServer()}
	if o.Namespace == "" {
		errs = append(errs, errors.New("--namespace is required"))
	}
	if len(o.SessionNamespaces) == 0 {
		errs = append(errs, errors.New("--session-namespaces is required: name those of the hub in which users of the console have sessions"))
	}
	switch impersonation.Mode(o.Impersonation) {
	case impersonation.Constrained, impersonation.Legacy:
	default:
		errs = append(errs, fmt.Errorf("--impersonation %q is neither constrained nor legacy", o.Impersonation))
	}
	if o.LoginLifetime < time.Minute || o.LoginLifetime > maxLoginLifetime {
		errs = append(errs, fmt.Errorf("--login-lifetime %s is not between 1m and %s", o.LoginLifetime, maxLoginLifetime))
	}
	return errors.Join(errs...)
}

func (o *Options) validateURL() error {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return fmt.Errorf("--url: %w", err)
	case o.URL == "" || u.Host == "":
		return errors.New("--url is required: the address of the console as browsers know it, such as https://vdi.example.com")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("--url %s must be a scheme and a host: the console serves all paths of its host", o.URL)
	case u.Scheme != "https" && (u.Scheme != "http" || !isLocalhost(u.Hostname())):
		return fmt.Errorf("--url %s must begin with https: browsers keep logins secure only there", o.URL)
	}
	return nil
}

// isLocalhost reports whether browsers treat a host as this machine (RFC 6761).
func isLocalhost(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func (o *Options) validateLogins() error {
	if o.IssuerURL == "" && o.UsersFile == "" {
		return errors.New("nobody could log in: set --oidc-issuer-url, or --users-file for a trial")
	}
	var errs []error
	if o.IssuerURL != "" && o.ClientID == "" {
		errs = append(errs, errors.New("--oidc-client-id is required with --oidc-issuer-url"))
	}
	if _, err := regexp.Compile(o.GroupsPattern); err != nil {
		errs = append(errs, fmt.Errorf("--oidc-groups-pattern: %w", err))
	}
	if u, err := url.Parse(o.URL); err == nil && o.UsersFile != "" && !o.AllowUsersFile && !isLocalhost(u.Hostname()) {
		errs = append(errs, errors.New("--users-file is for trials on localhost: use --oidc-issuer-url, or set --allow-users-file"))
	}
	return errors.Join(errs...)
}

func (o *Options) validateServer() error {
	var errs []error
	if (o.TLSCertFile == "") != (o.TLSKeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-key-file are set together or not at all"))
	}
	if _, _, err := net.SplitHostPort(o.BindAddress); err != nil {
		errs = append(errs, fmt.Errorf("--bind-address: %w", err))
	}
	for _, cidr := range o.TrustedProxies {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			errs = append(errs, fmt.Errorf("--trusted-proxies: %w", err))
		}
	}
	return errors.Join(errs...)
}

// clientAddress returns the address of the client of a request: of the connection, or as the proxies before
// the console, which are trusted, forwarded it.
func clientAddress(r *http.Request, trusted []netip.Prefix) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	forwarded := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(forwarded) - 1; i >= 0 && trusts(trusted, host); i-- {
		next := strings.TrimSpace(forwarded[i])
		if _, err := netip.ParseAddr(next); err != nil {
			break
		}
		host = next
	}
	return host
}

func trusts(trusted []netip.Prefix, host string) bool {
	address, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, prefix := range trusted {
		if prefix.Contains(address.Unmap()) {
			return true
		}
	}
	return false
}
