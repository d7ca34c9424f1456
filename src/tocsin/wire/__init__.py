"""The request and response types of the HTTP API, shared by the server and the client.

Responses tolerate fields and values that only a newer server knows; requests refuse unknown fields.
"""
