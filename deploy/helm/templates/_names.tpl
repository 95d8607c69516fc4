{{- define "sharewood.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "sharewood.selector" -}}
app.kubernetes.io/name: sharewood
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .Values.role }}
{{- end }}

{{- define "sharewood.labels" -}}
{{ include "sharewood.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The port at which the dealer or the other party connects, if any. */}}
{{- define "sharewood.linkPort" -}}
{{- if eq .Values.role "dealer" }}{{ .Values.ports.dealer }}{{ else if .Values.listens }}{{ .Values.ports.peer }}{{ end }}
{{- end }}
