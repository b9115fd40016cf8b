{{/* Names are fixed: kubectl vdi and the ClusterRoles refer to them. */}}
{{- define "vdi-agent.selector" -}}
app.kubernetes.io/name: vdi-agent
{{- end }}

{{- define "vdi-agent.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "vdi-agent.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: vdi-fleet
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "vdi-door.selector" -}}
app.kubernetes.io/name: vdi-door
{{- end }}

{{- define "vdi-door.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "vdi-door.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: vdi-fleet
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "vdi-agent.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The Secret with the certificate of an external issuer; empty if the agent joins. */}}
{{- define "vdi-agent.tlsSecret" -}}
{{- if eq .Values.certificates.mode "certManager" -}}
vdi-agent-tls
{{- else if eq .Values.certificates.mode "secret" -}}
{{ required "certificates.secretName is needed with certificates.mode secret" .Values.certificates.secretName }}
{{- end -}}
{{- end }}

{{/* The name that the hub's certificate must have; defaults to the host of join.hub. */}}
{{- define "vdi-agent.serverName" -}}
{{- .Values.join.serverName | default (regexReplaceAll ":[0-9]+$" .Values.join.hub "" | trimPrefix "[" | trimSuffix "]") -}}
{{- end }}

{{/* Labels of desktops' Pods. */}}
{{- define "vdi-agent.desktops" -}}
app.kubernetes.io/managed-by: vdi-fleet
{{- end }}

{{/*
A generated manifest of files/, with the release's namespace and labels. The text is
changed and not the objects, since Helm would turn large integers into floats.
*/}}
{{- define "vdi-agent.generated" -}}
{{- $labels := include "vdi-agent.labels" .root | nindent 4 -}}
{{- .text | replace "\n  namespace: vdi-system\n" (printf "\n  namespace: %s\n" .root.Release.Namespace) | replace "\nmetadata:\n" (printf "\nmetadata:\n  labels:%s\n" $labels) -}}
{{- end }}
