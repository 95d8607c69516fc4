{{- define "sharewood.pod" -}}
{{- $image := .Values.image -}}
{{- $source := printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- if $image.digest }}{{ $source = printf "%s@%s" $image.repository $image.digest }}{{ end -}}
metadata:
  labels: {{- include "sharewood.labels" . | nindent 4 }}
  annotations:
    checksum/config: {{ .Values.config | sha256sum }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  restartPolicy: {{ eq .Values.role "job" | ternary "Never" "Always" }}
  terminationGracePeriodSeconds: 60
  {{- with $image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  # Files of a Secret belong to root, and Sharewood reads private files only if nobody but their owner can.
  initContainers:
    - name: keys
      image: {{ $source | quote }}
      imagePullPolicy: {{ $image.pullPolicy }}
      command: [sh, -c, "install -m 0600 /secrets/* /keys"]
      securityContext: &restricted
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        requests: {cpu: 10m, memory: 32Mi}
        limits: {memory: 64Mi}
      volumeMounts:
        - {name: secrets, mountPath: /secrets, readOnly: true}
        - {name: keys, mountPath: /keys}
  containers:
    - name: sharewood
      image: {{ $source | quote }}
      imagePullPolicy: {{ $image.pullPolicy }}
      args:
        {{- with .Values.options }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- if eq .Values.role "job" }}
        {{- toYaml .Values.command | nindent 8 }}
        {{- else }}
        - {{ .Values.role }}
        {{- end }}
        - --config
        - /etc/sharewood/config.toml
        {{- if ne .Values.role "dealer" }}
        - --party
        - {{ .Values.party | quote }}
        {{- end }}
      {{- if and (eq .Values.role "serve") .Values.token.secret }}
      env:
        - name: SHAREWOOD_TOKEN
          valueFrom:
            secretKeyRef: {name: {{ .Values.token.secret }}, key: {{ .Values.token.key | quote }}}
      {{- end }}
      {{- $link := include "sharewood.linkPort" . }}
      {{- if or $link (eq .Values.role "serve") }}
      ports:
        {{- with $link }}
        - {name: link, containerPort: {{ . }}}
        {{- end }}
        {{- if eq .Values.role "serve" }}
        - {name: http, containerPort: {{ .Values.ports.http }}}
        {{- end }}
      {{- end }}
      {{- if eq .Values.role "serve" }}
      {{- $scheme := ternary "HTTPS" "HTTP" .Values.https }}
      # The first start on a machine compiles kernels.
      startupProbe:
        httpGet: {path: /health, port: http, scheme: {{ $scheme }}}
        periodSeconds: 5
        failureThreshold: 120
      livenessProbe:
        httpGet: {path: /health, port: http, scheme: {{ $scheme }}}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /ready, port: http, scheme: {{ $scheme }}}
        periodSeconds: 5
        timeoutSeconds: 5
      {{- end }}
      securityContext: *restricted
      resources: {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/sharewood, readOnly: true}
        - {name: keys, mountPath: /keys, readOnly: true}
        - {name: state, mountPath: /var/lib/sharewood/cache}
        - {name: temporary, mountPath: /tmp}
        {{- if ne .Values.role "dealer" }}
        - {name: data, mountPath: /job, readOnly: {{ .Values.data.readOnly }}}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "sharewood.name" . }}}
    - name: secrets
      projected:
        defaultMode: 0440
        sources:
          {{- range .Values.secrets }}
          - secret: {name: {{ . }}}
          {{- end }}
    - name: keys
      emptyDir: {medium: Memory, sizeLimit: 1Mi}
    - name: state
      {{- if .Values.state.claim }}
      persistentVolumeClaim: {claimName: {{ .Values.state.claim }}}
      {{- else }}
      emptyDir: {}
      {{- end }}
    - name: temporary
      emptyDir: {sizeLimit: {{ .Values.temporary }}}
    {{- if ne .Values.role "dealer" }}
    - name: data
      persistentVolumeClaim: {claimName: {{ .Values.data.claim }}, readOnly: {{ .Values.data.readOnly }}}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
